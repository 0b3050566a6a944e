"""What the cluster knows of a run: its state, and the commands to it, in an actor of Ray with the name of its folder.

The actor belongs to the process of the run that has loaded Ray, so it is there for as long as the run is.
"""

import signal
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

NAMESPACE = "rl-platform"
COMMAND_SECONDS = 1.0  # between two looks at the commands
COMMANDS = {"save": signal.SIGUSR1, "stop": signal.SIGTERM}  # to the process that the user has started
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


class RunState:
    """The side of the run."""

    def __init__(self, begun: float) -> None:
        """`begun`: the time at which the run began."""
        self._begun = begun
        self._board: ActorHandle[RunBoard] | None = None

    def exchange(self, run: str, line: str, details: list[str]) -> list[str]:
        """Show the state of this run, with a line about each part of it; return the commands since the last call."""
        self._board = self._board or _make_board(run)
        state = {"line": line, "begun": self._begun, "details": details}
        commands: list[str] = ray.get(self._board.exchange.remote(state), timeout=ANSWER_SECONDS)
        return commands


def _make_board(name: str) -> "ActorHandle[RunBoard]":
    """On the node of this process. ValueError for a moment after a gateway before this one was killed."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options: Any = ray.remote(RunBoard).options(name=name, namespace=NAMESPACE, num_cpus=0, scheduling_strategy=here)
    board: ActorHandle[RunBoard] = options.remote()
    return board


def running() -> dict[str, tuple[Any, dict[str, Any]]]:
    """The actors of all runs of the cluster, and what they show, by the name of the run."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE:
            try:
                board: Any = ray.get_actor(actor["name"], NAMESPACE)
                state: dict[str, Any] = ray.get(board.state.remote(), timeout=ANSWER_SECONDS)
            except (ValueError, RayActorError):  # it has ended meanwhile
                continue
            if state:
                found[actor["name"]] = board, state
    return found
