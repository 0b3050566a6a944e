"""The learners of one start on the nodes of a cluster, as the launcher sees them."""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError
from ray.util.placement_group import PlacementGroup, remove_placement_group

from cluster.nodes import ANSWER_SECONDS, call_actor, why_lost
from cluster.run_state import COMMAND_SECONDS, RunState
from learners.launcher import END_SECONDS
from learners.on_cluster.node_learner import State, newest_checkpoint
from processes.failures import RunFailedError

LOST = -1  # the exit code of a learner whose node does not tell it
LOOK_SECONDS = 0.2  # between two looks at a learner
CLOSE_SECONDS = 5.0
COMMANDS = {
    "save": signal.SIGUSR1,
    "stop": signal.SIGTERM,
}  # signals to this process, which it passes on to all learners
MOST_ERRORS = 1 << 20  # bytes that are kept of what a learner writes to stderr


class LearnerGoneError(Exception):
    """A learner, its actor or its node has ended, or does not answer."""

    def __init__(self, learner: "SeatedLearner", error: RayError) -> None:
        super().__init__(f"learner {learner.rank}: {why_lost(error, learner.node)}")


@dataclass
class SeatedLearner:
    """A learner on a node."""

    rank: int
    node: str
    actor: Any
    exit_code: int | None = None
    asked: Any = None  # the open question for its state
    waits_since: float | None = None  # when the first question was asked that has no answer yet
    errors: bytes = b""

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of its actor returns. Raises a LearnerGoneError if the node does not answer, or cannot."""
        try:
            return call_actor(self.actor, method, *arguments)
        except RayError as error:
            raise LearnerGoneError(self, error) from error


class Commands:
    """The commands of `python -m cluster.command` to a run whose learners are on a cluster.

    Shows the state of the run in the cluster, and reads commands, in a thread of its own.

    The thread waits for Ray's head where that does not answer, so that nobody else has to.
    """

    def __init__(self) -> None:
        self._run_state: RunState | None = None  # made by the thread, because that asks the head
        self._shown: tuple[dict[str, str], list[str]] = {}, []
        self._begun = time.time()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def show(self, run: str, line: str, learners: list[str]) -> None:
        """The name of the run's folder, how far the run is, and a line about each learner."""
        self._shown = {"run": run, "line": line}, learners

    def close(self) -> None:
        """The run has ended: nothing about it stays in the cluster."""
        self._closed.set()
        self._thread.join(2 * COMMAND_SECONDS)

    def _work(self) -> None:
        while not self._closed.wait(COMMAND_SECONDS):
            with suppress(Exception):  # the head does not answer now; whether that ends the run is found elsewhere
                self._exchange()

    def _exchange(self) -> None:
        if self._run_state is None:
            self._run_state = RunState(self._begun)
        self._run_state.status, learners = self._shown
        for command in self._run_state.exchange(learners):
            if command in COMMANDS:
                with suppress(OSError):  # nobody reads the output any more
                    print(f"{command}: asked for by a command from the cluster", flush=True)
                os.kill(os.getpid(), COMMANDS[command])


class StartedOnNodes:
    """Asks each learner's actor for news until all learners have ended."""

    def __init__(self, learners: Sequence[SeatedLearner], group: PlacementGroup, commands: Commands) -> None:
        """`group` is the placement group that has reserved their CPUs and GPUs."""
        self.begun = time.monotonic()
        self.learners = learners
        self._group = group
        self._commands = commands
        self._signals: list[int] = []
        self._folder = ""
        self._line = "starts"  # the last one that the first learner has printed

    def signal(self, number: int) -> None:
        self._signals.append(number)  # sent by `wait`, because a signal handler must not call Ray

    def wait(self) -> list[int]:
        failed_at = None
        is_killed = False
        while running := [learner for learner in self.learners if learner.exit_code is None]:
            if failed_at is None and any(learner.exit_code for learner in self.learners):
                failed_at = time.monotonic()
            if failed_at is not None and time.monotonic() - failed_at > END_SECONDS and not is_killed:
                self.signal(signal.SIGKILL)
                is_killed = True
            while self._signals:
                number = self._signals.pop(0)
                for learner in running:
                    learner.actor.signal.remote(int(number))
            self._look(running)
        return [LOST if learner.exit_code is None else learner.exit_code for learner in self.learners]

    def _look(self, running: Sequence[SeatedLearner]) -> None:
        now = time.monotonic()
        for learner in running:
            if learner.asked is None:
                learner.asked = learner.actor.state.remote()
                learner.waits_since = learner.waits_since or now
        answered, _ = ray.wait([each.asked for each in running], num_returns=len(running), timeout=LOOK_SECONDS)
        for learner in running:
            try:
                self._take_answer(learner, learner.asked in answered)
            except RayError as error:
                with suppress(OSError):  # nobody reads the output any more
                    print(LearnerGoneError(learner, error), flush=True)
                learner.exit_code = LOST
        time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - now)))

    def _take_answer(self, learner: SeatedLearner, is_there: bool) -> None:
        if is_there:
            answer, learner.asked = learner.asked, None
            with suppress(ActorUnavailableError):  # the network is cut: it is asked again
                self._receive(learner, ray.get(answer))
                learner.waits_since = None
        if learner.waits_since is not None and time.monotonic() - learner.waits_since > ANSWER_SECONDS:
            raise GetTimeoutError

    def _receive(self, learner: SeatedLearner, state: State) -> None:
        write(sys.stdout, state.output)
        if learner.rank == 0:
            write(sys.stderr, state.errors)
            self._show(state)
        elif len(learner.errors) < MOST_ERRORS:
            learner.errors += state.errors
        learner.exit_code = state.exit_code

    def _show(self, first: State) -> None:
        """Keep what the first learner tells about the run, and show it to the whole cluster."""
        self._folder = first.folder or self._folder
        self._line = next(reversed(first.output.decode(errors="replace").splitlines()), self._line)
        if self._folder:
            learners = [f"learner {learner.rank} on node {learner.node}" for learner in self.learners]
            self._commands.show(Path(self._folder).name, self._line, learners)

    def saved_folder(self) -> Path | None:
        """The run's folder on the node of the first learner, or here if that node is lost and others see it too."""
        if not self._folder:
            return None
        first = self.learners[0]
        try:
            is_saved = bool(first.call("newest_checkpoint", self._folder))
        except LearnerGoneError:
            is_saved = bool(newest_checkpoint(Path(self._folder)))
            if not is_saved:
                raise RunFailedError(
                    f"node {first.node} was lost with the run's folder, {self._folder}; once it is back, "
                    f"--op_mode=train_w_load --load_model_url={self._folder} goes on."
                ) from None
        return Path(self._folder) if is_saved else None

    def print_errors(self) -> None:
        for learner in self.learners[1:]:
            if learner.errors:
                write(sys.stderr, learner.errors)
                return

    def close(self) -> None:
        """Kill what is left. The guard of a learner whose actor is lost ends it on its node."""
        left = [learner.actor for learner in self.learners if learner.exit_code in (None, LOST)]
        signals = [actor.signal.remote(int(signal.SIGKILL)) for actor in left]
        if signals:
            ray.wait(signals, num_returns=len(signals), timeout=CLOSE_SECONDS)
        for learner in self.learners:
            with suppress(RayError):
                ray.kill(learner.actor)
        remove_placement_group(self._group)


def write(stream: Any, content: bytes) -> None:
    """Pass on what a learner has written, as long as somebody reads it."""
    binary: BinaryIO = stream.buffer
    with suppress(OSError):
        binary.write(content)
        binary.flush()
