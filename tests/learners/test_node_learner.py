"""A learner on its node, without Ray: its object is called directly, and main.py is a small program."""

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

pytest.importorskip("ray")

from learners.node_learner import NodeLearner

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MAIN = """
import os, pathlib, signal, sys, time
def save(*_):
    pathlib.Path("saved").touch()
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
from learners import node_learner
node_learner.END_SECONDS = float(sys.argv[2])
learner = node_learner.NodeLearner(False, os.getcwd())
learner.start([sys.argv[1]], {"RANK": "3"})
while not learner.state().output:
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
def node(checkout: Path) -> Iterator[NodeLearner]:
    learner = NodeLearner(False, str(checkout))
    learner.start(["0"], {"RANK": "3"})
    while not (state := learner.state()).output:
        pass
    output = state.output + learner.state().output
    assert (output, state.exit_code) == (b"rank 3\n", None), "each byte is returned once"
    program = program_of(checkout)
    guard = program.parent()
    yield learner
    for process in (guard, program):
        if process is not None and process.is_running():
            process.kill()


def program_of(checkout: Path) -> psutil.Process:
    """The learner: its program, without its guard."""
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
    wait_for(lambda: not list(checkout.glob("rl_learner_*")))


def test_a_signal_and_the_exit_code_reach_the_other_side_and_a_repeated_start_starts_nothing(
    node: NodeLearner, checkout: Path
) -> None:
    """The answer to the first start was lost with the network."""
    node.start(["1"], {"RANK": "3"})
    node.signal(signal.SIGTERM)
    wait_for(lambda: node.state().exit_code is not None)
    assert node.state().exit_code == 0 and (checkout / "saved").exists()


def test_without_its_guard_it_is_lost(node: NodeLearner, checkout: Path) -> None:
    guard = program_of(checkout).parent()
    assert guard is not None and "guarded_program.py" in " ".join(guard.cmdline())
    guard.kill()
    psutil.wait_procs([guard], timeout=60)
    with pytest.raises(BrokenPipeError):
        node.state()


def test_a_node_without_the_folder_of_the_user_uses_its_checkout(checkout: Path) -> None:
    learner = NodeLearner(False, str(checkout / "elsewhere"))
    learner.write("results", "checkpoints/checkpoint_0000000001.pt", b"content")
    assert learner.read("results", learner.newest_checkpoint("results")) == b"content"
    assert (checkout / "results" / "checkpoints").exists()
