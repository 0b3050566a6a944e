"""Processes that end before their worker is loaded: the reason is shown, and shown once."""

import sys
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker, spawn
from pathlib import Path

import pytest

from tests.workers.pools import Clock, MakePool, take, wait_for_error
from workers.failures import WorkersFailedError
from workers.processes.early_errors import kind_of_error, reason
from workers.processes.restarts import FAILURES_IN_A_ROW

pytestmark = pytest.mark.slow

Replace = Callable[[str], str]


@pytest.fixture
def replace_interpreter(tmp_path: Path) -> Iterator[Replace]:
    """Lets a shell script take the place of the interpreter of new processes."""
    resource_tracker.ensure_running()  # with the real interpreter: it is multiprocessing's own process
    before = spawn.get_executable()

    def replace(script: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        spawn.set_executable(str(path))
        return str(path)

    yield replace
    spawn.set_executable(before)


@pytest.mark.parametrize("values", ["", " of process $$ in '/tmp/x$$'"])
def test_what_a_process_wrote_before_it_ended_is_shown_once(
    make_pool: MakePool, clock: Clock, replace_interpreter: Replace, capfd: pytest.CaptureFixture[str], values: str
) -> None:
    """Also if the same error has other values in each process."""
    replace_interpreter(f'echo "a long explanation of $$" >&2; echo "cannot load the codec{values}" >&2; exit 3')
    pool, announced = make_pool(workers=1)
    with pytest.raises(WorkersFailedError, match=r"worker 0 ended with code 3 .*\(cannot load the codec.*\)"):
        wait_for_error(pool, clock)
    assert len(announced) == FAILURES_IN_A_ROW - 1
    assert ["a long explanation" in text for text in announced] == [True, False, False, False]
    assert all("cannot load the codec" in text for text in announced)
    assert "explanation" not in capfd.readouterr().err


def test_an_interpreter_that_cannot_be_executed_is_named(
    make_pool: MakePool, clock: Clock, replace_interpreter: Replace
) -> None:
    path = replace_interpreter("")
    Path(path).unlink()
    pool, announced = make_pool(workers=1)
    wanted = f"ended with code 255 before it was ready ({path} cannot be started (No such file or directory))"
    with pytest.raises(WorkersFailedError) as raised:
        wait_for_error(pool, clock)
    assert wanted in str(raised.value)
    assert all(text.endswith(wanted) for text in announced)


def test_what_a_healthy_process_writes_reaches_stderr(
    make_pool: MakePool, replace_interpreter: Replace, capfd: pytest.CaptureFixture[str]
) -> None:
    replace_interpreter(f'echo "early warning" >&2; exec {sys.executable} "$@"')
    pool, announced = make_pool(workers=1)
    take(pool, 10)
    assert capfd.readouterr().err == "early warning\n"
    assert not announced


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("", ""),
        ("one\ntwo\n", "two"),
        ("Fatal Python error: x\nModuleNotFoundError: y\n\n  <no Python frame>", "ModuleNotFoundError: y"),
        ("the library cannot be found\nbye", "the library cannot be found"),
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
