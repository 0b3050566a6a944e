"""What child processes inherit from a run and pass on, and what ends with them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from tests.processes import wait_until_gone
from workers.messages import Kind, receive, send
from workers.processes.child_process import PARENT_SIGNALS, end_process, fork_process, start_process, unblock_sigterm

pytestmark = pytest.mark.slow

SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class EndsProgram:
    """A child whose environment starts a program, and ends it by SIGTERM."""

    unblocks: bool

    def run(self, connection: Connection) -> None:
        if self.unblocks:
            unblock_sigterm()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for number in PARENT_SIGNALS:
            signal.raise_signal(number)  # of the terminal, for all processes of the run
        with subprocess.Popen(["sleep", "60"]) as program:
            program.terminate()
            try:
                code = program.wait(SECONDS if self.unblocks else 1.0)
            except subprocess.TimeoutExpired:
                program.kill()
                code = program.wait()
        send(connection, Kind.RESULT, payload=(code, sorted(blocked)))


@pytest.mark.parametrize("unblocks", [False, True])
def test_sigterm_ends_a_program_of_an_environment(unblocks: bool) -> None:
    process, connection = start_process(EndsProgram(unblocks), "player")
    try:
        assert connection.poll(SECONDS)
        code, blocked = receive(connection).payload
    finally:
        end_process(process, connection)
    assert code == (-signal.SIGTERM if unblocks else -signal.SIGKILL)
    assert set(PARENT_SIGNALS) - set(blocked) == ({signal.SIGTERM} if unblocks else set())


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


class Child:
    """A child with a program."""

    def __init__(self, start: Callable[[], int]) -> None:
        self.process, self.connection = start_process(LeavesProgram(start), "worker")
        assert self.connection.poll(SECONDS)
        self.program: int = receive(self.connection).payload
        self._has_ended = False

    def end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            end_process(self.process, self.connection)


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], int]], Child]]:
    children: list[Child] = []

    def started(function: Callable[[], int]) -> Child:
        children.append(Child(function))
        return children[-1]

    yield started
    for child in children:
        child.end()
        wait_until_gone(child.program)


@pytest.mark.parametrize("function", [sleep, sleep_through_a_shell, sleep_with_multiprocessing])
def test_a_program_of_an_environment_ends_with_its_process(
    start: Callable[..., Child], function: Callable[[], int]
) -> None:
    child, other = start(function), start(sleep)
    child.end()
    wait_until_gone(child.program)
    assert psutil.pid_exists(other.program), "that of another process goes on"


def test_a_program_ends_although_its_process_was_killed_before(start: Callable[..., Child]) -> None:
    child = start(sleep)
    os.kill(child.process.pid or 0, signal.SIGKILL)
    child.process.join(SECONDS)
    start(sleep)  # multiprocessing forgets processes that have ended when it starts another one
    child.end()
    wait_until_gone(child.program)


@pytest.mark.parametrize("function", [sleep, sleep_with_multiprocessing])
@pytest.mark.parametrize("fails", [False, True])
def test_a_program_ends_with_a_process_that_ends_by_itself(
    start: Callable[..., Child], function: Callable[[], int], fails: bool
) -> None:
    child = start(function)
    send(child.connection, Kind.GAME, int(fails))
    wait_until_gone(child.program)
    child.process.join(SECONDS)
    assert child.process.exitcode == int(fails)


def test_programs_end_when_the_learner_is_killed() -> None:
    """What reads the output of the run then comes to its end, too."""
    code = "from tests.workers.processes import test_child_process as here; here.play_as_learner()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        ids = [int(number) for number in learner.stdout.readline().split()]
        assert len(ids) == 4
        learner.kill()
        wait_until_gone(*ids)
        assert learner.communicate(timeout=SECONDS)[0] == ""


def play_as_learner() -> None:
    children = [Child(sleep), Child(sleep_through_a_shell)]
    print(*[child.process.pid for child in children], *[child.program for child in children], flush=True)
    time.sleep(1000)


@dataclass(frozen=True)
class ListsModules:
    """A forked child that says whether its server has loaded what it shall load."""

    def run(self, connection: Connection) -> None:
        send(connection, Kind.RESULT, payload="workers.processes.fork_server" in sys.modules)


def test_a_fork_server_loads_modules_of_the_checkout_from_any_folder(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "from tests.workers.processes import test_child_process as here; here.print_modules_of_fork_server()"
    )
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.check_output(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, stderr=subprocess.STDOUT, text=True, timeout=SECONDS
    )
    assert said == "True None\n"


def print_modules_of_fork_server() -> None:
    process, connection = fork_process(ListsModules(), "inference-0")
    loaded = receive(connection).payload
    end_process(process, connection)
    print(loaded, os.environ.get("PYTHONPATH"))


@pytest.mark.parametrize("end", ["killed", "by itself", "its parent is killed"])
def test_a_child_with_a_fork_server_leaves_nothing_in_the_temporary_folder(end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path would be too long for the path of a socket
        check_that_nothing_is_left(Path(folder), end)


def check_that_nothing_is_left(folder: Path, end: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"from tests.workers.processes import test_child_process as here; here.use_fork_server({end!r})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        timeout=SECONDS,
    )
    assert ran.stdout == b"a socket\n"
    assert ran.returncode == (-signal.SIGKILL if end == "its parent is killed" else 0)
    deadline = time.monotonic() + SECONDS
    while left := list(folder.iterdir()):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


class HasForkServer:
    def run(self, connection: Connection) -> None:
        process, pipe = fork_process(ListsModules(), "inference-0")
        receive(pipe)
        send(connection, Kind.RESULT)
        receive(connection)
        end_process(process, pipe)


def use_fork_server(end: str) -> None:
    process, connection = start_process(HasForkServer(), "worker-0")
    receive(connection)
    print("a socket" if list(Path(os.environ["TMPDIR"]).glob("rl_*/*/listener-*")) else "none", flush=True)
    if end == "its parent is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "by itself":
        send(connection, Kind.RESULT)
        process.join(SECONDS)
    end_process(process, connection)
    os._exit(0)  # as main.py ends


def test_a_process_starts_without_a_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object, **options: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    monkeypatch.setattr("tempfile.TemporaryFile", none)
    process, connection = start_process(ListsModules(), "worker-0")
    assert receive(connection).kind == Kind.RESULT
    end_process(process, connection)
