"""What the cluster knows of a run: its state, and the commands to it, in an actor of Ray with the name of its folder.

The actor belongs to the process of the run that has loaded Ray, so it is there for as long as the run is.
"""

import time
from threading import Lock
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

NAMESPACE = "rl-platform"
COMMAND_SECONDS = 1.0  # between two looks at the commands
ANSWER_SECONDS = 30.0


class RunBoard:
    """The actor."""

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}
        self._commands: list[str] = []

    def exchange(self, state: dict[str, Any]) -> list[str]:
        """Show the newest state of the run; return the commands since the last call."""
        self._state = state
        given, self._commands = self._commands, []
        return given

    def state(self) -> dict[str, Any]:
        """As it was last shown: when the run began, a line about it, and a line about each part."""
        return self._state

    def give(self, command: str) -> None:
        if command not in self._commands:
            self._commands.append(command)

    def is_taken(self, command: str) -> bool:
        return command not in self._commands

    def take_back(self, command: str) -> None:
        """Remove a command that the run has not read."""
        self._commands.remove(command)


class RunState:
    """The side of the run."""

    def __init__(self, begun: float) -> None:
        """`begun`: the time at which the run began."""
        self.status: dict[str, str] = {}  # `run`: its name, `line`: its state; empty until they are known
        self._begun = begun
        self._lock = Lock()  # commands are read in another thread than the one that ends the run
        self._ended = False
        self._board: ActorHandle[RunBoard] | None = None

    def exchange(self, details: list[str]) -> list[str]:
        """Show the newest state, with a line about each part of the run; return the commands since the last call.

        The last one is always `status`: the state is wanted again.
        """
        if not self.status:
            return ["status"]
        state = {"line": self.status["line"], "begun": self._begun, "details": details}
        with self._lock:
            if self._ended:
                return []
            self._board = self._board or self._make_board(self.status["run"])
            try:
                commands: list[str] = ray.get(self._board.exchange.remote(state), timeout=ANSWER_SECONDS)
            except RayActorError:
                self._board = None  # somebody has killed it; the next call makes another one
                raise
        return [*commands, "status"]

    @staticmethod
    def _make_board(name: str) -> "ActorHandle[RunBoard]":
        """On the node of this process. ValueError for a moment after a gateway before this one was killed."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: Any = ray.remote(RunBoard).options(
            name=name, namespace=NAMESPACE, num_cpus=0, scheduling_strategy=here
        )
        board: ActorHandle[RunBoard] = options.remote()
        return board

    def remove(self) -> None:
        """The run has ended in good order."""
        with self._lock:
            self._ended = True
            if self._board is not None:
                ray.kill(self._board)


def boards() -> dict[str, Any]:
    """The actors of all runs of the cluster, by name."""
    found = {}
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE:
            try:
                found[actor["name"]] = ray.get_actor(actor["name"], NAMESPACE)
            except ValueError:  # it has ended meanwhile
                continue
    return found


def states(of: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What these runs show."""
    asked = {name: board.state.remote() for name, board in of.items()}
    found = {}
    for name, answer in asked.items():
        try:
            state: dict[str, Any] = ray.get(answer, timeout=ANSWER_SECONDS)
        except RayActorError:  # it has ended meanwhile
            continue
        if state:
            found[name] = state
    return found


def give_command(board: Any, command: str) -> bool:
    """Leave a command for a run, which reads it within seconds. False if it has not; then the command is taken back."""
    try:
        ray.get(board.give.remote(command), timeout=ANSWER_SECONDS)
        deadline = time.monotonic() + ANSWER_SECONDS
        while not ray.get(board.is_taken.remote(command), timeout=ANSWER_SECONDS):
            if time.monotonic() > deadline:
                ray.get(board.take_back.remote(command), timeout=ANSWER_SECONDS)
                return False
            time.sleep(COMMAND_SECONDS / 5)
    except RayActorError:  # the run has ended
        return True
    return True
