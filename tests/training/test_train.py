"""Training end to end: real processes, real shared memory, and Catch, a small game that must be learned."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from agents.learner import Learner
from main import main
from option_flags import Config
from options.presets import FRESH_ALONE
from replay.mix import Batch
from reports.console import Console
from reports.run_display import Status
from run_files.checkpoint import find_checkpoint
from tests.catch import make_catch
from tests.processes import files_in_dev_shm, forked
from tests.read_metrics import read_metrics
from training import train as training
from training.train import train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def catch_config(results: Path, **flags: Any) -> Config:
    small = {"worker_count": 1, "envs_per_worker": 16, "r_f_steps": 10, "batch_size": 16, "frames_stacked": 1}
    learning = {"gamma": 0.9, "precision": "float32", "seed": 1, "environment_max_steps": 30_000, "report_period": 2000}
    quiet = {"console": "off", "curves": False, "replay_parameters": FRESH_ALONE}
    return Config.from_flags({**small, **learning, "results_dir": str(results), **quiet, **flags})


def reports(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    return [dict(report) for report in read_metrics(path)] if path.exists() else []


MIXED = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5},'
    ' {"type": "standard", "capacity": 100, "sample_ratio": 0.5}]'
)


class EveryStatus(Console):
    """Keeps every status instead of showing it."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Status] = []

    def due(self, now: float) -> bool:
        return True

    def show(self, status: Status, now: float) -> None:
        self.shown.append(status)


def test_the_display_keeps_its_figures_after_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = EveryStatus()
    monkeypatch.setattr(training, "make_console", lambda *_: console)
    folder = train(catch_config(tmp_path, environment_max_steps=3200, report_period=1), make_catch)
    seen = [status for status in console.shown if status["updates"]]
    assert len(seen) >= 2 and len(reports(folder)) == 20
    assert all(status["policy_lag_mean"] is not None and status["policy_loss"] is not None for status in seen)


def test_catch_is_learned(tmp_path: Path) -> None:
    """From a mixed batch, and with an LSTM. A policy that ignores the ball catches one in six: a mean of −0.67."""
    steps = 14_000
    flags = {"replay_parameters": MIXED, "use_lstm": True, "lstm_size": 32, "network": "impala_shallow", "lr": 3e-3}
    folder = train(catch_config(tmp_path, environment_max_steps=steps, **flags), make_catch)
    report = reports(folder)
    assert report[0]["return_mean"] < 0.3
    assert report[-1]["return_mean"] > 0.5
    assert report[-1]["agent_steps"] == steps
    assert report[-1]["frames"] == 4 * steps
    assert report[-1]["updates"] == (steps // 10 - 10) // 8
    games = (folder / "episodes.csv").read_text().splitlines()
    assert len(games) == 1 + report[-1]["episodes"] == 1 + steps // 5
    saved = find_checkpoint(str(folder))
    assert saved.agent_steps == steps
    assert saved.options["seed"] == 1


def test_unrolls_in_a_queue_at_the_end_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner is so slow that all unrolls arrive before it has used most of them."""
    real = Learner.update

    def update(self: Learner, batch: Batch) -> dict[str, torch.Tensor]:
        time.sleep(0.02)
        return real(self, batch)

    monkeypatch.setattr(Learner, "update", update)
    long = '[{"type": "queue", "capacity": 1000, "sample_ratio": 1.0}]'
    config = catch_config(tmp_path, replay_parameters=long, environment_max_steps=3200)
    report = reports(train(config, make_catch))
    assert report[-1]["agent_steps"] == 3200
    assert report[-1]["updates"] == config.planned_updates == 20


def test_training_continues_if_a_worker_is_killed(tmp_path: Path) -> None:
    done, killed = threading.Event(), threading.Event()

    def kill_a_worker() -> None:
        while not done.wait(0.01):
            if any(reports(folder) for folder in tmp_path.glob("*")):
                random.choice(forked()).kill()
                killed.set()
                return

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    try:
        folder = train(catch_config(tmp_path, worker_count=2, environment_max_steps=8_000), make_catch)
    finally:
        done.set()
        killer.join()
    last = reports(folder)[-1]
    assert last["agent_steps"] == 8_000
    assert killed.is_set() and last["worker_restarts"] == 1


def start_main(results: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "main.py", "--op_mode=train", f"--results_dir={results}", "--console_period=0.2", *flags]
    small = ["--worker_count=1", "--envs_per_worker=2", "--batch_size=4", "--r_f_steps=5"]
    return subprocess.Popen(
        command + small, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"the run ended before it printed {word!r}")


def test_no_process_outlives_a_killed_learner(tmp_path: Path) -> None:
    run = start_main(tmp_path)
    wait_for(run, "entropy 1.")
    children = psutil.Process(run.pid).children(recursive=True)
    assert children
    assert not files_in_dev_shm(psutil.Process(run.pid))
    run.kill()
    run.communicate()
    psutil.wait_procs(children)  # pytest's timeout ends it


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--env=PongNoFrameskip-v5", ["--env", "PongNoFrameskip-v4"]),
        ("--batch_sise=3", ["--batch_size"]),
        ("--network=nature --frame_scale_resolution=8,8", ["--frame_scale_resolution", "84,84"]),
        (
            '--replay_parameters=[{"type":"standard","capacity":100000000,"sample_ratio":1}]',
            ["--replay_parameters", "GiB"],
        ),
        ("--device=cuda:77", ["--device"]),
        ("--results_dir=/proc/nowhere", ["--results_dir"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flag: str, words: list[str]
) -> None:
    results = tmp_path / "results"
    flags = flag.split() if "results_dir" in flag else [*flag.split(), f"--results_dir={results}"]
    assert main(["--op_mode=train", "--console=off", *flags]) == 2
    out, errors = capfd.readouterr()
    assert out == ""
    assert errors.count("\n") == 1
    assert all(word in errors for word in words), errors
    assert not results.exists()


def test_bad_input_ends_the_process_with_exit_code_2(tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "main.py", "--console=off", "--device=cuda:77", f"--results_dir={results}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("main.py: ") and ended.stderr.count("\n") == 1
    assert not results.exists()


def test_a_command_of_older_versions_runs_unchanged(tmp_path: Path) -> None:
    """Only its number of steps is smaller."""
    replays = (
        '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5}, '
        '{"type": "standard", "capacity": 1000, "sample_ratio": 0.5}]'
    )
    begun = time.monotonic()
    words = ["--op_mode=train", "--env=PongNoFrameskip-v4", "--environment_max_steps=1500"]
    words += ["--batch_size=10", "--r_f_steps=10", "--worker_count=2", "--envs_per_worker=2"]
    assert main([*words, f"--replay_parameters={replays}", f"--results_dir={tmp_path}"]) == 0
    (folder,) = tmp_path.iterdir()
    last = reports(folder)[-1]
    assert last["agent_steps"] == 1500
    assert last["updates"] == (150 - 100) // 5, (
        "the warm-up takes 100 unrolls, a tenth of the standard replay; then each update takes 5 new ones"
    )
    assert {name: replay["size"] for name, replay in last["replays"].items()} == {"0_queue": 0, "1_standard": 150}
    assert last["seconds"] < time.monotonic() - begun
