"""`main.py --cluster=… --learners=2`: two nodes of a real Ray cluster, one learner on each."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psutil
import pytest

from run_files.checkpoint import find_checkpoint
from tests.cluster.some_nodes import ROOT, SomeNodes, wait_until_gone
from tests.training.catch_runs import reports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FLAGS = (
    *("--env=CartPole-v1", "--learners=2", "--worker_count=2", "--envs_per_worker=8", "--seed=1", "--nocurves"),
    "--device=cpu",  # every node of the test would say that it has the machine's GPU
    *("--console=plain", "--console_period=0.2", "--report_period=640"),
)
OFTEN = "--save_model_period=10"
AGAIN = "all learners start again from the last checkpoint"
ENDLESS = "--environment_max_steps=100000000"


class Run:
    """main.py on the cluster, what it has printed, and its learners."""

    def __init__(self, nodes: SomeNodes, results: Path, *flags: str) -> None:
        self.results = results
        self._printed = results.with_suffix(".txt")
        command = [sys.executable, "main.py", *FLAGS, f"--cluster={nodes.address}", f"--results_dir={results}", *flags]
        with self._printed.open("ab") as file:
            self.process = subprocess.Popen(command, cwd=ROOT, env=nodes.environment, stdout=file, stderr=file)

    @property
    def output(self) -> str:
        return self._printed.read_text()

    def wait_for(self, condition: Callable[[], object], seconds: float = 300.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None and time.monotonic() < deadline, self.output
            time.sleep(0.05)

    def wait_for_update(self, after: int = 0) -> None:
        """Wait until the part of the output after so many characters shows an update."""
        self.wait_for(lambda: "entropy 0." in self.output[after:])

    def checkpoints(self) -> list[Path]:
        return list(self.results.glob("*/checkpoints/checkpoint_*.pt"))

    def learners(self) -> list[psutil.Process]:
        """By rank. They are no children of this process, but have its --results_dir."""
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if f"--results_dir={self.results}" in words and "RANK" in process.environ():
                    found[int(process.environ()["RANK"])] = process
        return [process for _, process in sorted(found.items())]

    def everything(self) -> list[psutil.Process]:
        """Learners, their workers and guards."""
        learners = self.learners()
        assert len(learners) == 2, self.output
        guards = [parent for learner in learners if (parent := learner.parent()) is not None]
        return [*learners, *guards, *(child for each in learners for child in each.children(recursive=True))]

    def end(self, seconds: float = 300.0) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.output}") from None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for learner in self.learners():
            with suppress(psutil.NoSuchProcess):
                learner.kill()


Start = Callable[..., Run]


@pytest.fixture(scope="module")
def nodes(ray_head: SomeNodes) -> Iterator[SomeNodes]:
    """A head without CPUs, where the user is, and two nodes with one CPU each."""
    ray_head.add()
    ray_head.add()
    yield ray_head
    ray_head.kill_all()


@pytest.fixture
def start(nodes: SomeNodes, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda *flags: stack.enter_context(closing(Run(nodes, tmp_path / "results", *flags)))


def folders(results: Path) -> list[Path]:
    return sorted(results.iterdir(), key=lambda path: path.stat().st_ctime)


def assert_equal_weights(folder: Path) -> None:
    first, other = find_checkpoint(str(folder)), find_checkpoint(str(folder / "learner_1"))
    assert first.updates == other.updates == reports(folder)[-1]["updates"]
    weights, others = (each.content["learner"]["network"] for each in (first, other))
    assert all(weights[name].equal(others[name]) for name in weights)


def test_signals_lost_learners_and_a_killed_driver(start: Start) -> None:
    run = start(ENDLESS, "--save_model_period=1000000", "--save_model_minutes=1000")
    run.wait_for_update()
    assert run.output.count("with 1 CPU\n") == 2, run.output
    learners = run.learners()
    assert len({learner.environ()["RAY_RAYLET_PID"] for learner in learners}) == 2, "two nodes"
    assert not any("_raylet" in mapped.path for each in learners for mapped in each.memory_maps()), (
        "none has loaded Ray"
    )

    assert not run.checkpoints()
    run.process.send_signal(signal.SIGUSR1)
    run.wait_for(run.checkpoints)

    learners[1].kill()
    run.wait_for(lambda: AGAIN in run.output)
    assert f"learner 1 was lost: {AGAIN}" in run.output
    run.wait_for_update(after=run.output.index(AGAIN))
    left = run.everything()
    assert len(left) >= 6, "two learners, their guards and workers"

    run.process.kill()
    assert not wait_until_gone(left, 90.0)
    first, second = folders(run.results)
    assert_equal_weights(second)  # they have saved
    assert find_checkpoint(str(second)).updates > find_checkpoint(str(first)).updates


@pytest.mark.by_hand
def test_all_learners_end_after_the_same_update(start: Start) -> None:
    run = start(ENDLESS)
    run.wait_for_update()
    left = run.everything()
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0, run.output
    assert "resume with: python main.py --op_mode=train_w_load" in run.output
    assert not wait_until_gone(left)
    (folder,) = folders(run.results)
    assert_equal_weights(folder)


@pytest.mark.by_hand
def test_a_run_ends_at_its_steps_and_is_resumed(start: Start) -> None:
    run = start("--environment_max_steps=20000")
    assert run.end() == 0, run.output
    (folder,) = folders(run.results)
    assert_equal_weights(folder)
    assert find_checkpoint(str(folder)).agent_steps >= 20000
    again = start("--op_mode=train_w_load", f"--load_model_url={folder}", "--environment_max_steps=30000")
    assert again.end() == 0, again.output
    _, second = folders(run.results)
    assert_equal_weights(second)
    assert find_checkpoint(str(second)).agent_steps >= 30000


@pytest.mark.by_hand
def test_an_actor_that_holds_a_learner_may_be_killed(start: Start) -> None:
    run = start(ENDLESS, OFTEN)
    run.wait_for_update()
    run.wait_for(run.checkpoints)
    left = run.everything()
    node = int(run.learners()[1].environ()["RAY_RAYLET_PID"])
    (actor,) = [child for child in psutil.Process(node).children() if "NodeActor" in " ".join(child.cmdline())]
    actor.kill()
    run.wait_for(lambda: "learner 1: its node" in run.output)
    run.wait_for(lambda: AGAIN in run.output)
    assert not wait_until_gone(left, 90.0)
    run.wait_for_update(after=run.output.index(AGAIN))
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0, run.output


@pytest.mark.by_hand
def test_a_lost_node_is_replaced(start: Start, nodes: SomeNodes) -> None:
    run = start(ENDLESS, OFTEN)
    run.wait_for_update()
    run.wait_for(run.checkpoints)
    left = run.everything()
    pid = int(run.learners()[1].environ()["RAY_RAYLET_PID"])
    index = next(index for index in nodes.alive if nodes.raylet(index).pid == pid)
    nodes.kill(index)
    run.wait_for(lambda: "has left the cluster" in run.output)
    nodes.add()
    run.wait_for(lambda: AGAIN in run.output)
    run.wait_for_update(after=run.output.index(AGAIN))
    assert not wait_until_gone(left, 90.0)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0, run.output


@pytest.mark.by_hand
def test_too_many_learners_are_refused_in_one_sentence(nodes: SomeNodes, tmp_path: Path) -> None:
    others = [flag for flag in FLAGS if not flag.startswith(("--learners", "--worker_count"))]
    flags = [*others, "--learners=4", f"--cluster={nodes.address}", f"--results_dir={tmp_path}"]
    command = [sys.executable, "main.py", *flags]
    ran = subprocess.run(command, check=False, cwd=ROOT, env=nodes.environment, capture_output=True, text=True)
    assert ran.returncode == 2, ran
    assert ran.stderr == (
        "main.py: --learners=4 needs as many CPUs that no other program of Ray uses, and the cluster has 2 in all; "
        "fewer learners or more nodes would be right.\n"
    )
    assert ran.stdout.count("\n") == 1, "what it is about to do"
    assert not list(tmp_path.iterdir())
