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
import os, pathlib, signal, sys, time
def save(*_):
    pathlib.Path(__file__).with_name("saved").touch()
    if sys.argv[1] != "hangs":
        sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, save)
print("rank", os.environ["RANK"], flush=True)
while True:
    time.sleep(1000)
"""
# The actor, which ends without a word when its input ends.
ACTOR = """
import os, sys
from cluster.guarded_program import GuardedProgram
program = GuardedProgram(False)
program.start(["main.py", sys.argv[1]], ("output", "errors"), {"RANK": "3"}, float(sys.argv[2]))
while not program.read("output"):
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
    started.start(["main.py", "0"], ("output", "errors"), {"RANK": "3"}, 60.0)
    wait_for(lambda: started.read("output") == b"rank 3\n")
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


@pytest.mark.parametrize(("does", "seconds"), [("0", 60.0), ("hangs", 0.2)])
def test_it_saves_and_ends_when_its_actor_ends(checkout: Path, does: str, seconds: float) -> None:
    """One that hangs is killed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(checkout)}
    words = [sys.executable, "-c", ACTOR, does, str(seconds)]
    actor = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with actor:
        assert actor.stdout is not None and actor.stdout.readline() == "started\n"
        program = program_of(checkout)
        actor.kill()
    wait_for(lambda: not program.is_running())
    assert (checkout / "saved").exists()
    wait_for(lambda: not list(checkout.glob("rl_program_*")))


def test_a_signal_and_the_exit_code_reach_the_other_side_and_a_repeated_start_starts_nothing(
    node: GuardedProgram, checkout: Path
) -> None:
    """The answer to the first start was lost with the network."""
    node.start(["main.py", "1"], ("output", "errors"), {"RANK": "3"}, 60.0)
    node.signal(signal.SIGTERM)
    wait_for(lambda: code_of(node) is not None)
    assert code_of(node) == 0 and (checkout / "saved").exists()


def test_without_its_guard_it_is_lost(node: GuardedProgram, checkout: Path) -> None:
    guard = program_of(checkout).parent()
    assert guard is not None and "guard.py" in " ".join(guard.cmdline())
    guard.kill()
    psutil.wait_procs([guard], timeout=60)
    with pytest.raises(BrokenPipeError):
        code_of(node)


def test_a_node_without_the_folder_of_the_user_uses_its_checkout(checkout: Path) -> None:
    program = GuardedProgram(False, str(checkout / "elsewhere"))
    program.write("results/checkpoints/checkpoint_0000000001.pt", b"content")
    assert program.newest_checkpoint("results") == "checkpoints/checkpoint_0000000001.pt"
    assert (checkout / "results" / "checkpoints" / "checkpoint_0000000001.pt").read_bytes() == b"content"
