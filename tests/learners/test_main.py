"""`main.py --learners=2`: learners that are killed, and their launcher's end; and learners that torchrun has placed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from options.presets import FRESH_ALONE
from run_files.checkpoint import find_checkpoint
from tests.ports import free_ports
from tests.training.catch_runs import reports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    *("--env=CartPole-v1", "--learners=2", "--worker_count=2", "--envs_per_worker=8", "--seed=1", "--nocurves"),
    "--device=cpu",  # a machine with one GPU has none for the second learner
    *("--console=plain", "--console_period=0.2", "--report_period=640", "--save_model_period=10"),
)
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts main.py; after the test, none of its processes may be left."""
    runs: list[subprocess.Popen[str]] = []

    def start_run(*flags: str) -> subprocess.Popen[str]:
        command = [sys.executable, "main.py", *FLAGS, f"--results_dir={tmp_path}", *flags]
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True))
        return runs[-1]

    yield start_run
    for run in runs:
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(run.pid).children(recursive=True):
                process.kill()
        run.kill()
        with run:
            run.communicate(timeout=60)


def learners_of(run: subprocess.Popen[str]) -> list[psutil.Process]:
    """The learner processes, by rank."""
    children = [child for child in psutil.Process(run.pid).children() if "main.py" in " ".join(child.cmdline())]
    return sorted(children, key=lambda child: int(child.environ()["RANK"]))


def lines_until(run: subprocess.Popen[str], text: str) -> list[str]:
    """Read the output until a line contains the text."""
    assert run.stdout is not None
    lines = []
    for line in run.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"no {text!r} in {''.join(lines)}\n{run.stderr.read() if run.stderr else ''}")


def ended(processes: list[psutil.Process]) -> bool:
    """Whether all processes end soon."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not alive


def test_a_killed_learner_brings_all_back_and_a_signal_ends_all_after_the_same_update(
    start: Start, tmp_path: Path
) -> None:
    run = start("--environment_max_steps=1000000")
    lines_until(run, "entropy 0.")
    while not list(newest(tmp_path).glob("checkpoints/checkpoint_*.pt")):
        time.sleep(0.05)
    learners_of(run)[0].kill()
    lines_until(run, "learner 0 was lost: all learners start again from the last checkpoint")
    assert any("resuming from" in line for line in lines_until(run, "entropy 0."))
    processes = psutil.Process(run.pid).children(recursive=True)
    run.terminate()
    out, errors = run.communicate(timeout=100)
    assert run.returncode == 0
    assert not errors, "what learner 1 says without learner 0 is no news"
    assert "resume with: python main.py --op_mode=train_w_load" in out
    assert ended(processes)
    first, second = by_age(tmp_path)
    assert find_checkpoint(str(first)).agent_steps < find_checkpoint(str(second)).agent_steps
    assert_equal_updates(second)


def assert_equal_updates(folder: Path) -> None:
    first, other = find_checkpoint(str(folder)), find_checkpoint(str(folder / "learner_1"))
    assert first.updates == other.updates == reports(folder)[-1]["updates"]


def by_age(results: Path) -> list[Path]:
    return sorted(results.iterdir(), key=lambda path: path.stat().st_ctime)


def newest(results: Path) -> Path:
    return by_age(results)[-1]


def test_all_processes_save_and_end_with_their_launcher(start: Start, tmp_path: Path) -> None:
    run = start("--environment_max_steps=1000000")
    lines_until(run, "entropy 0.")
    processes = psutil.Process(run.pid).children(recursive=True)
    assert len(processes) >= 4  # learners and workers
    run.kill()
    assert ended(processes)
    assert_equal_updates(newest(tmp_path))


def test_torchrun_may_place_the_learners(tmp_path: Path) -> None:
    """As torchrun does it: all learners get the same command, and their places by variables.

    It says nothing of several learners, but they get the settings for them, which are not IMPACT's.
    """
    flags = [flag for flag in FLAGS if flag != "--learners=2"] + [f"--replay_parameters={FRESH_ALONE}"]
    command = [sys.executable, "main.py", *flags, f"--results_dir={tmp_path}", "--environment_max_steps=1000"]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "GLOO_SOCKET_IFNAME": "lo"}
    sizes = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    places = [{**os.environ, **shared, **sizes, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    runs = [subprocess.Popen(command, cwd=ROOT, env=place) for place in places]
    try:
        assert [run.wait(timeout=200) for run in runs] == [0, 0]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    checkpoint = find_checkpoint(str(newest(tmp_path)))
    assert checkpoint.agent_steps >= 1000 and checkpoint.updates > 0
    assert checkpoint.config.loss.loss == "vtrace"


def test_a_machine_with_room_for_one_learner_gives_it_the_settings_for_one(tmp_path: Path) -> None:
    flags = ("--env=CartPole-v1", "--learners=0", "--worker_count=1", "--device=cpu", "--console=plain", "--nocurves")
    command = [sys.executable, "main.py", *flags, f"--results_dir={tmp_path}", "--environment_max_steps=300"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=200).stdout
    assert "settings: numbers, for observations without a picture" in said
    assert find_checkpoint(str(newest(tmp_path))).config.loss.loss == "impact"
