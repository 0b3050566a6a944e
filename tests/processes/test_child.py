"""What child processes inherit from a run and pass on, and what ends with them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from processes.child import PARENT_SIGNALS, Child, spawn, start_child
from processes.fork_server import ForkServer, start_forked
from processes.messages import Kind, receive, send
from tests.processes import wait_until_gone

pytestmark = pytest.mark.slow

SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[2]


class EndsProgram:
    """A child whose environment starts a program, and ends it by SIGTERM."""

    def run(self, connection: Connection) -> None:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for number in PARENT_SIGNALS:
            signal.raise_signal(number)  # of the terminal, for all processes of the run
        with subprocess.Popen(["sleep", "60"]) as program:
            program.terminate()
            code = program.wait(SECONDS)
        send(connection, Kind.RESULT, payload=(code, sorted(blocked)))


def test_sigterm_ends_a_program_of_an_environment() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child = start_child(EndsProgram(), "player")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    try:
        code, blocked = answer_of(child)
    finally:
        child.end()
    assert code == -signal.SIGTERM
    assert set(PARENT_SIGNALS) - set(blocked) == {signal.SIGTERM}


def answer_of(child: Child) -> Any:
    assert child.connection.poll(SECONDS)
    return receive(child.connection).payload


@dataclass(frozen=True)
class LeavesProgram:
    """A child whose environment starts a program and never ends it; it ends by itself when it gets a message."""

    start: Callable[[], int]

    def run(self, connection: Connection) -> None:
        send(connection, Kind.RESULT, payload=self.start())
        if receive(connection).index:
            raise ValueError("the child fails")


def sleep() -> int:
    return subprocess.Popen(["sleep", "1000"]).pid


def sleep_through_a_shell() -> int:
    """A program that is nobody's child any more."""
    return int(subprocess.check_output(["sh", "-c", "sleep 1000 >/dev/null & echo $!"]))


def sleep_with_multiprocessing() -> int:
    process = multiprocessing.Process(target=time.sleep, args=(1000,))
    process.start()
    assert process.pid is not None
    return process.pid


class Parent:
    """A child with a program."""

    def __init__(self, start: Callable[[], int]) -> None:
        self.child = start_child(LeavesProgram(start), "worker 0")
        self.program: int = answer_of(self.child)
        self._exit_codes: list[int] = []

    def end(self) -> int:
        """Its exit code."""
        if not self._exit_codes:
            self._exit_codes.append(self.child.end()[0])
        return self._exit_codes[0]


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], int]], Parent]]:
    children: list[Parent] = []

    def started(function: Callable[[], int]) -> Parent:
        children.append(Parent(function))
        return children[-1]

    yield started
    for child in children:
        child.end()
        wait_until_gone(child.program)


@pytest.mark.parametrize("function", [sleep, sleep_through_a_shell, sleep_with_multiprocessing])
def test_a_program_of_an_environment_ends_with_its_process(
    start: Callable[..., Parent], function: Callable[[], int]
) -> None:
    child, other = start(function), start(sleep)
    child.end()
    wait_until_gone(child.program)
    assert psutil.pid_exists(other.program), "that of another process goes on"


def test_a_program_ends_although_its_process_was_killed_before(start: Callable[..., Parent]) -> None:
    child = start(sleep)
    os.kill(child.child.pid, signal.SIGKILL)
    wait_until(lambda: child.child.has_ended)
    child.end()
    wait_until_gone(child.program)


@pytest.mark.parametrize("function", [sleep, sleep_with_multiprocessing])
@pytest.mark.parametrize("fails", [False, True])
def test_a_program_ends_with_a_process_that_ends_by_itself(
    start: Callable[..., Parent], function: Callable[[], int], fails: bool
) -> None:
    child = start(function)
    child.child.send(Kind.GAME, int(fails))
    wait_until_gone(child.program)
    wait_until(lambda: child.child.has_ended)
    assert child.end() == int(fails)


def test_programs_end_when_the_learner_is_killed() -> None:
    """What reads the output of the run then comes to its end, too."""
    code = "from tests.processes import test_child as here; here.play_as_learner()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        ids = [int(number) for number in learner.stdout.readline().split()]
        assert len(ids) == 4
        learner.kill()
        wait_until_gone(*ids)
        assert learner.communicate(timeout=SECONDS)[0] == ""


def play_as_learner() -> None:
    children = [Parent(sleep), Parent(sleep_through_a_shell)]
    print(*[child.child.pid for child in children], *[child.program for child in children], flush=True)
    time.sleep(1000)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@dataclass(frozen=True)
class Says:
    """Says what it got, and whether a module was loaded before it."""

    value: Any
    module: str = ""

    def run(self, connection: Connection) -> None:
        send(connection, Kind.RESULT, payload=(self.value, self.module in sys.modules))
        receive(connection)


def test_a_start_changes_nothing_in_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    before = dict(os.environ), sys.path[:], tempfile.tempdir, psutil.Process().num_fds()
    seen: list[dict[str, str]] = []
    child = start_child(Says("x"), "worker 0", launch=lambda *words: seen.append(dict(os.environ)) or spawn(*words))  # type: ignore[func-returns-value]
    assert answer_of(child) == ("x", False)
    child.end()
    assert (dict(os.environ), sys.path, tempfile.tempdir, psutil.Process().num_fds()) == before
    assert seen == [before[0]]


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with closing(ForkServer([__name__, "wave"])) as server:
        yield server


def test_forked_children_share_what_their_server_has_loaded(server: ForkServer) -> None:
    children = [start_child(Says(index, "wave"), "inference", server) for index in range(3)]
    assert [answer_of(child) for child in children] == [(index, True) for index in range(3)]
    os.kill(children[0].pid, signal.SIGSEGV)
    children[1].send(Kind.GAME)  # it ends by itself
    wait_until(lambda: all(child.has_ended for child in children[:2]))
    assert [child.end()[0] for child in children[:2]] == [-signal.SIGSEGV, 0]
    assert children[2].end()[0] in (-signal.SIGKILL, 0)  # killed, unless it noticed first that its pipe closed


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")
def test_a_fork_server_that_was_killed_is_replaced_and_its_children_go_on(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processes.fork_server.FORK_SERVER", server)
    first = start_child(Says(1), "inference", server)
    assert answer_of(first) == (1, False)
    psutil.Process(first.pid).parent().kill()  # type: ignore[union-attr]
    second = start_forked(Says(3), "inference")
    assert answer_of(second) == (3, False)
    first.send(Kind.GAME)
    with pytest.raises(EOFError):
        receive(first.connection)
    for child in (first, second):
        child.end()


def test_a_stopped_fork_server_is_replaced(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start_child(Says(1), "inference", server)
    assert answer_of(first) == (1, False)
    psutil.Process(first.pid).parent().suspend()  # type: ignore[union-attr]
    with monkeypatch.context() as patches:
        patches.setattr("processes.fork_server.ANSWER_SECONDS", 0.1)
        assert not first.has_ended, "nobody can say"
    second = start_child(Says(2), "inference", server)
    assert answer_of(second) == (2, False)
    for child in (first, second):
        child.end()


def test_forked_children_draw_different_numbers_from_numpys_own_generator() -> None:
    with closing(ForkServer(["numpy"])) as server:
        children = [start_child(Draws(), f"worker {index}", server) for index in range(2)]
        first, second = (receive(child.connection).payload for child in children)
        assert first != second
        for child in children:
            child.end()


class Draws:
    def run(self, connection: Connection) -> None:
        send(connection, Kind.RESULT, payload=import_module("numpy").random.random())


def test_a_fork_server_and_its_children_end_with_their_parent() -> None:
    code = "from tests.processes import test_child as here; here.use_fork_server()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        ids = [int(number) for number in learner.stdout.readline().split()]
        assert len(ids) == 3
        learner.kill()
        wait_until_gone(*ids)


def use_fork_server() -> None:
    child = start_child(HasForkServer(), "worker 0")
    print(child.pid, *answer_of(child), flush=True)
    time.sleep(1000)


class HasForkServer:
    def run(self, connection: Connection) -> None:
        child = start_child(Says(1), "inference", ForkServer([]))
        send(connection, Kind.RESULT, payload=(psutil.Process(child.pid).ppid(), child.pid))
        time.sleep(1000)
