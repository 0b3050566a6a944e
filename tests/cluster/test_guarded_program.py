"""A program on its node, without Ray: its object is called directly."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cluster.guarded_program import GuardedProgram

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MAIN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1])))
print("started", flush=True)
while True:
    time.sleep(1000)
"""
# The actor, which ends without a word when its input ends.
ACTOR = """
import os, sys
from cluster.guarded_program import GuardedProgram
program = GuardedProgram(False)
program.start(["main.py", "0"], "log.txt")
while not any(each.content for each in program.news("", {})[2]):
    pass
print("started", flush=True)
sys.stdin.read()
os._exit(9)
"""


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the actor is, and the user."""
    (tmp_path / "main.py").write_text(MAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def node(checkout: Path) -> Iterator[GuardedProgram]:
    started = GuardedProgram(False)
    started.start(["main.py", "0"], "log.txt")
    wait_for(lambda: Path(started.folder(), "log.txt").read_text() == "started\n")
    assert code_of(started) is None
    program = program_of(checkout)
    guard = program.parent()
    yield started
    for process in (guard, program):
        if process is not None and process.is_running():
            process.kill()


def code_of(program: GuardedProgram) -> int | None:
    return program.news("", {})[0]


def program_of(checkout: Path) -> psutil.Process:
    """The program itself, without its guard."""
    (found,) = (each for each in psutil.process_iter() if words_of(each)[1:2] == [str(checkout / "main.py")])
    return found


def words_of(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def test_it_ends_with_its_actor(checkout: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(checkout)}
    words = [sys.executable, "-c", ACTOR]
    actor = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with actor:
        assert actor.stdout is not None and actor.stdout.readline() == "started\n"
        program = program_of(checkout)
        actor.kill()
    wait_for(lambda: not program.is_running())
    wait_for(lambda: not list(checkout.glob("rl_program_*")))


def test_a_signal_and_the_exit_code_reach_the_other_side_and_a_repeated_start_starts_nothing(
    node: GuardedProgram,
) -> None:
    """The answer to the first start was lost with the network."""
    node.start(["main.py", "1"], "log.txt")
    node.signal(signal.SIGTERM)
    wait_for(lambda: code_of(node) is not None)
    assert code_of(node) == 0


def test_without_its_guard_it_is_lost(node: GuardedProgram, checkout: Path) -> None:
    guard = program_of(checkout).parent()
    assert guard is not None and "guard.py" in " ".join(guard.cmdline())
    guard.kill()
    psutil.wait_procs([guard], timeout=60)
    with pytest.raises(BrokenPipeError):
        code_of(node)
