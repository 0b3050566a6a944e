"""Environments that raise, return nonsense or hang in a worker process: what the run says about it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from tests.workers.pools import SILENCE_LIMIT, Clock, be_silent
from tests.wrappers.hand_written import FAULTY, options_of
from workers.failures import WorkersFailedError
from workers.messages import Kind, Message, receive, send
from workers.processes.restarts import FAILURES_IN_A_ROW
from workers.supervisor import Supervisor
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
    """A supervisor of one worker, which asks for steps."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.clock = Clock()
        self.announced: list[str] = []
        self.answers = 0
        self._waits = False  # for an answer
        worker = cast(Any, PlayingWorker(arguments))
        self._supervisor = Supervisor(
            *(1, lambda index, restart_index: worker, None, self._received, self._ended, self.announced.append),
            silence_limit=SILENCE_LIMIT,
            restart_budget=100,
            clock=self.clock,
        )

    def _received(self, index: int, message: Message) -> None:
        self.answers += 1
        self._waits = False

    def _ended(self, index: int) -> None:
        self._waits = False

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._supervisor.process_ids()[0])

    def be_silent(self) -> None:
        """Let so much time pass that the process is asked where it hangs."""
        be_silent(self.clock, self._supervisor.poll)

    def ask_until(self, over: Callable[[], bool], tick: float = 0.0) -> None:
        """Ask for one step after the other; the clock goes on by `tick` while there is no answer."""
        while not over():
            if not self._supervisor.is_running(0):
                self.clock.now += 1.0
            elif not self._waits:
                self._waits = True
                self._supervisor.request(0, Kind.SLOT_FREE)
            self._supervisor.poll(0.05)
            self.clock.now += tick

    def close(self) -> None:
        self._supervisor.close()


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
    sentence = f"{FAULTY} has a fault in step 1 of a game (1 steps since the environment was made): step raised "
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
    assert "hand_written.py" in first and "worker.py" not in first and "child_process.py" not in first
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


def test_a_step_that_never_returns_is_found(start: Start, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    run = start("sleeps", 3, mark=str(hangs))
    run.ask_until(lambda: hangs.exists() and run.process.status() == psutil.STATUS_SLEEPING)
    run.be_silent()
    run.ask_until(lambda: bool(run.announced))
    text = run.announced[0]
    assert text.startswith("worker 0 is replaced: it did not respond for 60 seconds:\nTraceback")
    assert "in wait_for_a_server_that_never_answers\n    time.sleep(1000)" in text
    assert f"{FAULTY} has a fault in step " in text.splitlines()[-1]
    assert "no answer within --worker_timeout" in text.splitlines()[-1]


def test_a_step_that_cannot_be_interrupted_is_found(start: Start, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    run = start("computes", 3, mark=str(hangs))
    run.ask_until(hangs.exists)
    before = run.process.cpu_times().user
    run.ask_until(lambda: run.process.cpu_times().user > before + 0.1)
    run.be_silent()
    run.ask_until(lambda: bool(run.announced), tick=0.1)
    first, place = run.announced[0].splitlines()[:2]
    assert first == ("worker 0 is replaced: it did not respond for 60 seconds; it hangs here, most recent call first:")
    assert place.endswith(", in step") and "hand_written.py" in place
    assert "adapter.py" not in run.announced[0]
