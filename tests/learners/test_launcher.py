"""`main.py --learners=2`: learners that are killed, that hang, or that cannot start; and their launcher's end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from learners.launcher import start_learners
from processes.failures import RunFailedError
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

    def start_run(*flags: str, program: str = "main.py") -> subprocess.Popen[str]:
        command = [sys.executable, program, *FLAGS, f"--results_dir={tmp_path}", *flags]
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


def wait_for_update(run: subprocess.Popen[str]) -> None:
    lines_until(run, "entropy 0.")


def wait_for_checkpoint(results: Path) -> None:
    while not list(results.glob("*/checkpoints/checkpoint_*.pt")):
        time.sleep(0.05)


def ended(processes: list[psutil.Process]) -> bool:
    """Whether all processes end soon."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not alive


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_learner_brings_all_back_from_the_last_checkpoint(start: Start, tmp_path: Path, rank: int) -> None:
    run = start("--environment_max_steps=1000000")
    wait_for_update(run)
    wait_for_checkpoint(tmp_path)
    learners_of(run)[rank].kill()
    lines_until(run, f"learner {rank} was lost: all learners start again from the last checkpoint")
    lines = lines_until(run, "entropy 0.")
    assert any("resuming from" in line for line in lines)
    processes = psutil.Process(run.pid).children(recursive=True)
    run.send_signal(signal.SIGINT)
    out, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    assert "resume with: python main.py --op_mode=train_w_load" in out
    assert ended(processes)
    first, second = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_ctime)
    assert find_checkpoint(str(second)).agent_steps > find_checkpoint(str(first)).agent_steps


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.by_hand), 1])
def test_a_learner_that_hangs_is_killed_and_all_come_back(start: Start, tmp_path: Path, rank: int) -> None:
    steps, timeout = "--environment_max_steps=1000000", "--worker_timeout=20"
    run = start(steps, timeout, program="tests/learners/hasty_main.py")
    wait_for_update(run)
    wait_for_checkpoint(tmp_path)
    hanging = learners_of(run)[rank]
    before = psutil.Process(run.pid).children(recursive=True)
    hanging.suspend()
    lines_until(run, f"learner {rank} was lost: all learners start again from the last checkpoint")
    assert ended(before), "a stopped process is killed like any other, and its workers end with it"
    lines = lines_until(run, "entropy 0.")
    assert any("resuming from" in line for line in lines)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    first, second = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_ctime)
    assert find_checkpoint(str(second)).agent_steps > find_checkpoint(str(first)).agent_steps


def test_all_processes_end_with_their_launcher(start: Start) -> None:
    run = start("--environment_max_steps=1000000")
    wait_for_update(run)
    processes = psutil.Process(run.pid).children(recursive=True)
    assert len(processes) >= 4  # learners and workers
    run.kill()
    assert ended(processes)


def test_a_signal_to_the_launcher_stops_all_after_the_same_update(start: Start, tmp_path: Path) -> None:
    run = start("--environment_max_steps=1000000")
    wait_for_update(run)
    run.terminate()
    _, errors = run.communicate(timeout=100)
    assert (run.returncode, errors) == (0, "")
    (folder,) = tmp_path.iterdir()
    first, other = find_checkpoint(str(folder)), find_checkpoint(str(folder / "learner_1"))
    assert first.updates == other.updates == reports(folder)[-1]["updates"]


def test_lost_learners_end_the_run_when_no_restart_is_left(start: Start) -> None:
    run = start("--environment_max_steps=1000000", "--learner_restarts=0")
    wait_for_update(run)
    learners_of(run)[1].kill()
    _, errors = run.communicate(timeout=100)
    assert run.returncode == 1
    assert "main.py: learner 1 was lost" in errors.splitlines()[-1]


def shared_variables() -> dict[str, str]:
    """Those that torchrun gives to all learners alike."""
    return {
        **os.environ,
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "GLOO_SOCKET_IFNAME": "lo"},
    }


def test_torchrun_may_place_the_learners(tmp_path: Path) -> None:
    """As torchrun does it: all learners get the same command, and their places by variables."""
    command = [sys.executable, "main.py", *FLAGS, f"--results_dir={tmp_path}", "--environment_max_steps=4000"]
    shared = shared_variables()
    places = [{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"} for rank in ("0", "1")]
    runs = [subprocess.Popen(command, cwd=ROOT, env={**shared, **place}) for place in places]
    try:
        assert [run.wait(timeout=200) for run in runs] == [0, 0]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    (folder,) = tmp_path.iterdir()
    assert find_checkpoint(str(folder)).agent_steps >= 4000


def test_no_learner_goes_on_where_another_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start_once(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(popen(*arguments, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_once)
    with pytest.raises(RunFailedError, match="a learner could not be started .Resource temporarily unavailable."):
        start_learners([sys.executable, "-c", "import time; time.sleep(100)"], 2)
    assert started[0].poll() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--batch_size=9"], "--batch_size=9 gives the replays 9 unrolls of a batch, which --learners=2 cannot divide"),
        (["--worker_count=1"], "--worker_count=1 leaves some of --learners=2 without a worker; 2 or more"),
        (["--cluster=auto", "--nolocal_workers"], "--nolocal_workers has no meaning with --cluster and --learners=2"),
        (["--cluster=auto", "--node_workers=3"], "--node_workers=3 has no meaning with --cluster and --learners=2"),
        (["--cluster=127.0.0.1:1"], "--cluster=127.0.0.1:1 does not answer"),
        (["--learners=-1"], "--learners must be a whole number"),
        (["--device=cuda:0"], "--learners=2 needs a device for each learner, and --device=cuda:0 is a single one"),
    ],
)
def test_bad_input_gives_one_sentence(tmp_path: Path, flags: list[str], sentence: str) -> None:
    names = {flag.split("=")[0] for flag in flags}
    others = [flag for flag in FLAGS if flag.split("=")[0] not in names]
    command = [sys.executable, "main.py", *others, *flags, f"--results_dir={tmp_path}"]
    ran = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"main.py: {sentence}"), ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_learners_that_disagree_say_so(tmp_path: Path) -> None:
    shared = shared_variables()
    runs = []
    for rank, lr in enumerate(("0.001", "0.002")):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        command = [sys.executable, "main.py", *FLAGS, f"--results_dir={tmp_path}", f"--lr={lr}"]
        runs.append(subprocess.Popen(command, cwd=ROOT, env={**shared, **place}, stderr=subprocess.PIPE, text=True))
    try:
        errors = [run.communicate(timeout=200)[1] for run in runs]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert [run.returncode for run in runs] == [2, 2]
    for error in errors:
        assert "--lr is 0.001 for learner 0 and 0.002 for learner 1; the same for all would be right" in error
