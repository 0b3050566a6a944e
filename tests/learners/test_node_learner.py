"""A learner on its node, without Ray: its actor is called directly, and main.py is a small program."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray")

from learners.node_learner import NodeLearner, State

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MAIN = """
import os, pathlib, sys, time
print("rank", os.environ["RANK"], flush=True)
os.write(int(os.environ["TELL"]), b"results/run")
os.read(int(os.environ["LIFELINE"]), 1)
pathlib.Path("saved").touch()
if sys.argv[1] == "hangs":
    time.sleep(1000)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeLearner]:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "cluster").symlink_to(ROOT / "cluster")
    (checkout / "main.py").write_text(MAIN)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    learner = NodeLearner(str(checkout), False, str(tmp_path))
    yield learner
    end(learner)


def end(node: NodeLearner) -> None:
    """As if the actor had ended."""
    assert node._guard.stdin is not None
    node._guard.stdin.close()
    node._guard.wait()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def start(node: NodeLearner, word: str, seconds_to_end: float) -> psutil.Process:
    """Start it, and return its process once it waits."""
    node.start([word], {"RANK": "3"}, "LIFELINE", "TELL", seconds_to_end)
    states: list[State] = []

    def is_ready() -> str:
        states.append(node.state())
        return states[-1].folder

    wait_for(is_ready)
    assert states[-1].folder == "results/run" and states[-1].exit_code is None
    assert b"".join(state.output for state in states) == b"rank 3\n"
    assert node.state().output == b"", "each byte is returned once"
    return psutil.Process(int((node._folder / "pid").read_text()))


def test_it_saves_and_ends_when_its_actor_ends(node: NodeLearner, tmp_path: Path) -> None:
    process = start(node, "0", 60.0)
    end(node)
    wait_for(lambda: not process.is_running())
    assert (tmp_path / "saved").exists()
    wait_for(lambda: not list(tmp_path.glob("rl_learner_*")))


def test_a_repeated_start_starts_nothing(node: NodeLearner) -> None:
    """The answer to the first one was lost with the network."""
    process = start(node, "0", 60.0)
    node.start(["1"], {"RANK": "3"}, "LIFELINE", "TELL", 60.0)
    node.signal(signal.SIGTERM)  # which the guard reads after what could be a start
    wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    wait_for(lambda: node.state().exit_code is not None)
    assert node.state().exit_code == -signal.SIGTERM
    assert int((node._folder / "pid").read_text()) == process.pid


def test_a_program_that_cannot_be_started_is_said(node: NodeLearner, tmp_path: Path) -> None:
    node._cwd = tmp_path / "removed"
    node.start(["0"], {"RANK": "3"}, "LIFELINE", "TELL", 1.0)
    states: list[State] = []

    def has_ended() -> bool:
        states.append(node.state())
        return states[-1].exit_code is not None

    wait_for(has_ended)
    assert states[-1].exit_code == 1
    errors = b"".join(state.errors for state in states).decode()
    assert "main.py cannot start there: " in errors and "No such file or directory" in errors


def test_one_that_hangs_is_killed_after_its_actor_has_ended(node: NodeLearner, tmp_path: Path) -> None:
    process = start(node, "hangs", 1.0)
    end(node)
    wait_for(lambda: not process.is_running())
    wait_for(lambda: not list(tmp_path.glob("rl_learner_*")))


def test_it_ends_without_its_guard(node: NodeLearner, tmp_path: Path) -> None:
    process = start(node, "0", 60.0)
    guard = process.parent()
    assert guard is not None and "guarded_program.py" in " ".join(guard.cmdline())
    guard.kill()
    wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)

    def is_noticed() -> bool:
        try:
            node.state()
        except RuntimeError:
            return True
        return False

    wait_for(is_noticed)


def test_a_signal_and_the_exit_code_reach_the_other_side(node: NodeLearner) -> None:
    start(node, "0", 60.0)
    node.signal(signal.SIGKILL)
    wait_for(lambda: node.state().exit_code is not None)
    assert node.state().exit_code == -signal.SIGKILL


def test_a_node_without_the_folder_of_the_user_uses_its_checkout(tmp_path: Path) -> None:
    learner = NodeLearner(str(ROOT), False, str(tmp_path / "elsewhere"))
    assert learner._cwd == ROOT
    assert learner._folder.exists()
    end(learner)
