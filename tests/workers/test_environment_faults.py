"""Environments that raise, return nonsense or hang in a worker process: what the run says about it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from processes.fork_server import start_forked
from processes.messages import Kind, receive, send
from processes.pool import FAILURES_IN_A_ROW, ChildPool, Ended, Member, WorkersFailedError
from tests.workers.pools import SILENCE_LIMIT, Clock, be_silent
from tests.wrappers.hand_written import FAULTY, options_of
from wrappers.make_environment import make_environment

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class PlayingWorker:
    """Plays one step of an environment for each request."""

    arguments: dict[str, Any]

    def run(self, connection: Connection) -> None:
        environment = make_environment(options_of(FAULTY, env_kwargs=json.dumps(self.arguments)), seed=0)
        environment.reset()
        while True:
            message = receive(connection)
            *_, terminated, truncated, _ = environment.step(0)
            if terminated or truncated:
                environment.reset()
            send(connection, Kind.SLOT_FILLED, message.index)


class Run:
    """One worker, which is asked for steps."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.clock = Clock()
        self.announced: list[str] = []
        self.answers = 0
        self._children = ChildPool(
            self.announced.append, silence=SILENCE_LIMIT, budget=100, start=start_forked, clock=self.clock
        )
        self._worker = Member("worker 0", lambda starts: PlayingWorker(arguments))
        self._children.add(self._worker)

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._children.process_ids()[0])

    def be_silent(self) -> None:
        """Let so much time pass that the process is asked where it hangs."""
        be_silent(self.clock, self._poll)

    def ask_until(self, over: Callable[[], bool]) -> None:
        """Ask for one step after the other."""
        while not over():
            if self._worker.child is None:
                self.clock.now += 1.0
            elif not self._worker.owes:
                self._children.request(self._worker, Kind.SLOT_FREE)
            self._poll(0.05)

    def _poll(self, timeout: float) -> None:
        for member, event in self._children.poll(timeout):
            if isinstance(event, Ended):
                self._children.replace(member, event)
            else:
                self.answers += 1
                member.owes -= 1

    def close(self) -> None:
        self._children.close()


Start = Callable[..., Run]


@pytest.fixture
def start() -> Iterator[Start]:
    runs: list[Run] = []

    def started(how: str, at: int, **arguments: str) -> Run:
        runs.append(Run({"how": how, "at": at, **arguments}))
        return runs[-1]

    yield started
    for run in runs:
        run.close()


def test_an_exception_is_shown_with_the_users_traceback_once(start: Start) -> None:
    run = start("raises", 1)
    with pytest.raises(WorkersFailedError) as raised:
        run.ask_until(lambda: False)
    first, *others = run.announced
    assert first.startswith("worker 0 is replaced: it failed:\nTraceback (most recent call last):\n")
    assert first.count("Traceback") == first.count("ValueError: nothing works after 1 steps\n") == 1
    assert "hand_written.py" in first and "adapter.py" not in first
    sentence = f"{FAULTY} has a fault in step 1 of a game: step raised "
    assert first.splitlines()[-1] == f"{sentence}ValueError: nothing works after 1 steps."
    assert len(others) == FAILURES_IN_A_ROW - 2
    for text in [*others, str(raised.value)]:
        assert "Traceback" not in text
        assert f"failed, in the same way as before: {sentence}ValueError" in text


def test_a_constructor_that_fails_in_a_worker_only_has_the_users_traceback(start: Start) -> None:
    run = start("is never made", 1)
    with pytest.raises(WorkersFailedError):
        run.ask_until(lambda: False)
    first, *others = run.announced
    assert first.count("Traceback") == first.count("ValueError: the constructor fails\n") == 1
    assert "hand_written.py" in first and "worker.py" not in first and "inside.py" not in first
    sentence = f"--env={FAULTY} cannot be made: its constructor failed with ValueError: the constructor fails."
    assert first.splitlines()[-1] == sentence
    assert all(text.endswith(f"failed, in the same way as before: {sentence}") for text in others)


def test_a_wrong_observation_ends_the_run_with_one_sentence(start: Start) -> None:
    run = start("nan", 1)
    with pytest.raises(WorkersFailedError, match="the observation has nan at place 1; finite float32 numbers"):
        run.ask_until(lambda: False)
    assert not any("Traceback" in text for text in run.announced)


def test_a_fault_after_some_steps_replaces_the_worker(start: Start) -> None:
    run = start("raises", 4)
    run.ask_until(lambda: run.answers >= 9)
    assert ["Traceback" in text for text in run.announced] == [True] + [False] * (len(run.announced) - 1)
    assert len(run.announced) >= 2


@pytest.mark.parametrize("how", ["sleeps", "computes"])
def test_a_step_that_never_returns_is_found(start: Start, tmp_path: Path, how: str) -> None:
    hangs = tmp_path / "hangs"
    run = start(how, 3, mark=str(hangs))
    run.ask_until(hangs.exists)
    before = run.process.cpu_times().user
    run.ask_until(lambda: how == "sleeps" or run.process.cpu_times().user > before + 0.1)
    run.be_silent()
    first, place, *_ = run.announced[0].splitlines()
    assert first == "worker 0 is replaced: it did not respond for 60 seconds; it hangs here, most recent call first:"
    assert "hand_written.py" in place
    assert " in step" in run.announced[0]
