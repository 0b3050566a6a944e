"""What child processes print: where it is kept, and what is quoted of it when one ends."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from processes.child import Child, start_child
from processes.messages import Kind, receive, send
from processes.pool import FAILURES_IN_A_ROW, ChildPool, Ended, Member, WorkersFailedError
from processes.printed import QUOTED_LINES, Printed, kind_of_error, plain_text, reason


@dataclass(frozen=True)
class Prints:
    """Prints in all ways, then ends as asked."""

    text: str
    exit_code: int = 3

    def run(self, connection: Connection) -> None:
        print(self.text)
        os.system("echo by a program >&2")
        os.write(2, b"by its number\n")
        send(connection, Kind.RESULT)
        receive(connection)
        os._exit(self.exit_code)


def pool_of(work: Prints, announced: list[str], folder: Path | None = None) -> tuple[ChildPool, Member]:
    def start(work: object, name: str) -> Child:
        return start_child(work, name, logs=folder)

    pool = ChildPool(announced.append, silence=60.0, budget=100, start=start)
    member = Member("worker 3", lambda starts: work)
    return pool, member


def wait_for(pool: ChildPool, kind: type[object]) -> object:
    while True:
        for member, event in pool.poll(0.1):
            if isinstance(event, Ended):
                pool.replace(member, event)
            if isinstance(event, kind):
                return event
            if member.child is not None:
                member.child.send(Kind.GAME)


def test_what_a_process_prints_is_in_its_file_and_quoted_without_escapes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    announced: list[str] = []
    pool, member = pool_of(Prints("\x1b[31mred\x1b[0m\nloading 1%\rloading 99%"), announced, tmp_path / "logs")
    pool.add(member)
    wait_for(pool, Ended)
    pool.close()
    quoted = "red\nloading 99%\nby a program\nby its number"
    assert announced == [f"worker 3 is replaced: it ended with code 3; it printed last:\n{quoted}"]
    written = (tmp_path / "logs" / "worker_3.txt").read_text()
    assert written.startswith("\x1b[31mred") and written.endswith("by a program\nby its number\n")
    assert capfd.readouterr() == ("", "")


def test_a_process_that_prints_nothing_leaves_no_file(tmp_path: Path) -> None:
    printed = Printed(tmp_path / "logs" / "worker_0.txt")
    assert (tmp_path / "logs" / "worker_0.txt").exists()
    printed.close()
    assert not list(tmp_path.iterdir())


def test_a_file_that_grows_too_large_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("processes.printed.LARGEST", 100)
    path = tmp_path / "worker_0.txt"
    printed = Printed(path)
    os.write(printed.file, b"x" * 101)
    printed.limit()
    os.write(printed.file, b"later\n")
    assert (path.read_text(), printed.last_lines()) == ("later\n", "later")
    printed.close()


def test_only_the_end_of_this_process_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "worker_0.txt").write_text("of the process before\n")
    printed = Printed(tmp_path / "worker_0.txt")
    assert printed.last_lines() == ""
    os.write(printed.file, "".join(f"line {number}\n" for number in range(100)).encode())
    assert printed.last_lines().splitlines() == [f"line {number}" for number in range(100 - QUOTED_LINES, 100)]
    printed.close()


Replace = Callable[[str], str]


@pytest.fixture
def replace_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replace:
    """Lets a shell script take the place of the interpreter of new processes."""

    def replace(script: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        return str(path)

    return replace


@pytest.mark.parametrize("values", ["", " of process $$ in '/tmp/x$$'"])
@pytest.mark.slow
def test_a_process_that_ends_before_its_work_says_why_once(replace_interpreter: Replace, values: str) -> None:
    """Also if the same error has other values in each process."""
    replace_interpreter(f'echo "a long explanation of $$" >&2; echo "cannot load the codec{values}" >&2; exit 3')
    announced: list[str] = []
    pool, member = pool_of(Prints(""), announced)
    pool.add(member)
    with pytest.raises(WorkersFailedError, match=r"worker 3 ended with code 3, in the same .*: cannot load the codec"):
        wait_for(pool, Exception)
    pool.close()
    assert len(announced) == FAILURES_IN_A_ROW - 1
    assert ["a long explanation" in text for text in announced] == [True, False, False, False]
    assert all("cannot load the codec" in text for text in announced)


def test_an_interpreter_that_cannot_be_executed_is_an_error_of_the_start(replace_interpreter: Replace) -> None:
    path = replace_interpreter("")
    Path(path).unlink()
    pool, member = pool_of(Prints(""), [])
    with pytest.raises(WorkersFailedError, match=r"worker 3 could not be started \(No such file or directory\)"):
        pool.add(member)
    pool.close()


class Sleeps:
    def run(self, connection: Connection) -> None:
        send(connection, Kind.RESULT)
        self.hang()

    def hang(self) -> None:
        time.sleep(1000)


@pytest.fixture
def sleeper() -> Iterator[Child]:
    child = start_child(Sleeps(), "player")
    receive(child.connection)
    yield child
    child.end()


@pytest.mark.slow
def test_a_process_says_where_it_hangs_and_a_stopped_one_nothing(sleeper: Child) -> None:
    while not (place := sleeper.where_it_hangs()).startswith(f'  File "{__file__}", line '):
        pass  # it is on its way
    assert place.splitlines()[0].endswith(" in hang")
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert sleeper.where_it_hangs() == ""


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[2J\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text\x1b]8;;http://x\x1b\\link", "textlink"),
        ("1%\r50%\r\nnext\ttab", "50%\nnext\ttab"),
        ("bell\x07 \x9b31m null\x00", "bell 31m null"),
    ],
)
def test_plain_text_controls_no_terminal(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("", ""),
        ("one\ntwo\n", "two"),
        ("Fatal Python error: x\nModuleNotFoundError: y\n\n  <no Python frame>", "ModuleNotFoundError: y"),
        ("the library cannot be found\nbye", "the library cannot be found"),
        ('  File "game.py", line 7 in step\n  File "worker.py", line 9 in collect\n', 'File "game.py", line 7 in step'),
    ],
)
def test_the_line_that_says_most_is_the_last_with_an_error(said: str, wanted: str) -> None:
    assert reason(said) == wanted


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("OSError: [Errno 2] No such file: '/tmp/a'", "OSError: [Errno 2] No such file: '/tmp/b'", True),
        ("thread 17 of 64 cannot be started", "thread 3 of 64 cannot be started", True),
        ("ImportError: <module at 0x7fa2>", "ImportError: <module at 0x7Fb0>", True),
        ("MemoryError: in load", "MemoryError: in save", False),
    ],
)
def test_errors_that_differ_in_values_only_are_of_one_kind(first: str, second: str, same: bool) -> None:
    assert (kind_of_error(first) == kind_of_error(second)) == same
