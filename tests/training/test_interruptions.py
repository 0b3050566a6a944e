"""Runs that are interrupted, whose workers fail or whose disk is full save what resuming needs."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

from option_flags import Config, EnvironmentOptions
from processes.pool import WorkersFailedError
from run_files.checkpoint import find_checkpoint
from tests.catch import Catch, Picture
from tests.options.words import parse
from tests.processes import signal_session
from tests.training.catch_runs import CATCH, reports
from tests.training.resumed_runs import SMALL, assert_same_run
from training.train import train
from wrappers.atari import ScoreKeeper, make_atari

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts main.py with the given flags; all its processes are killed after the test."""
    runs: list[subprocess.Popen[str]] = []

    def start_run(*flags: str) -> subprocess.Popen[str]:
        command = [sys.executable, "main.py", *flags]
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True))
        return runs[-1]

    yield start_run
    for run in runs:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        with run:
            run.communicate(timeout=200)


def finish(run: subprocess.Popen[str]) -> str:
    out, errors = run.communicate(timeout=200)
    assert run.returncode == 0, errors
    assert errors == ""
    return out


def interrupt_after_updates(run: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send the signal to all processes after some updates; return the last line."""
    assert run.stdout is not None
    learning = (line for line in run.stdout if "entropy 1." in line)
    assert next(learning, None) and next(learning, None), "the run ended before its first updates"
    signal_session(run.pid, number)
    return finish(run).splitlines()[-1]


def resume_flags(last_line: str) -> list[str]:
    assert last_line.startswith("resume with: python main.py --op_mode=train_w_load --load_model_url=")
    return shlex.split(last_line.removeprefix("resume with: python main.py"))


def test_a_run_interrupted_by_signals_to_all_processes_is_resumed_exactly(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command that the last line prints; only the number of steps is added."""
    flags = {**SMALL, "reproducible": True, "worker_count": 1, "results_dir": str(tmp_path)}
    flags |= {"console": "plain", "console_period": 0.05}
    words = [f"--{name}={value}" for name, value in flags.items()]
    run = start("--op_mode=train", "--environment_max_steps=100000", *words)
    last_line = interrupt_after_updates(run, signal.SIGINT)
    (first,) = tmp_path.iterdir()
    last_line = interrupt_after_updates(start(*resume_flags(last_line)), signal.SIGTERM)
    (second,) = set(tmp_path.iterdir()) - {first}

    parent = find_checkpoint(str(second))
    steps = parent.agent_steps + 405
    words = [*resume_flags(last_line), f"--environment_max_steps={steps}"]
    third = train(parse(words, parent.options), make_atari, parent)
    assert "the games continue exactly where they stopped" in capsys.readouterr().out
    whole = train(Config.from_flags({**flags, "console": "off", "environment_max_steps": steps}), make_atari)
    assert_same_run(whole, first, second, third)


class BreakingCatch(Catch):
    """Fails after 25 steps, and from then on in every process."""

    def __init__(self, seed: int, marker: Path) -> None:
        super().__init__(seed)
        self._marker = marker
        self._steps = 0

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._steps == 25:
            self._marker.touch()
        if self._marker.exists():
            raise RuntimeError("broken")
        return super().step(action)


def make_breaking_catch(
    options: EnvironmentOptions, seed: int, watch: object = None, *, marker: Path
) -> gymnasium.Env[Any, Any]:
    return ScoreKeeper(BreakingCatch(seed, marker))


@pytest.mark.parametrize("reproducible", [False, True])
def test_a_run_whose_workers_keep_failing_saves_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reproducible: bool
) -> None:
    monkeypatch.setattr("training.checkpoint_saver.SNAPSHOT_SECONDS", 0.5)  # in which no worker answers
    make = partial(make_breaking_catch, marker=tmp_path / "broken")
    flags = {"reproducible": reproducible, "results_dir": str(tmp_path / "results"), "worker_restart_budget": 0}
    with pytest.raises(WorkersFailedError, match="broken"):
        train(Config.from_flags({**CATCH, **flags}), make)
    (folder,) = (tmp_path / "results").iterdir()
    # Each environment played two unrolls; unrolls that no batch needed before the error are not received.
    assert find_checkpoint(str(folder)).agent_steps in ({160} if reproducible else range(80, 161, 10))
    assert reports(folder) or reproducible


def test_a_full_disk_does_not_end_a_run(tmp_path: Path, start: Start) -> None:
    """A resource limit of the learner's process prevents it from enlarging files for a while."""
    flags = {**SMALL, "worker_count": 1, "save_model_period": 10, "results_dir": str(tmp_path)}
    flags |= {"console": "plain", "console_period": 0.05}
    run = start("--op_mode=train", *[f"--{name}={value}" for name, value in flags.items()])
    assert run.stdout is not None

    def printed(words: str) -> bool:
        assert run.stdout is not None
        return any(words in line for line in run.stdout)

    assert printed("entropy 1.")
    (folder,) = tmp_path.iterdir()
    metrics = folder / "metrics.jsonl"
    while not metrics.read_bytes() or not list(folder.glob("checkpoints/*.pt")):
        assert run.poll() is None
        time.sleep(0.01)
    learner = psutil.Process(run.pid)
    learner.rlimit(psutil.RLIMIT_FSIZE, (metrics.stat().st_size, -1))
    assert printed("cannot be written") and printed("no checkpoint could be written")
    assert find_checkpoint(str(folder)).updates > 0, "the last complete checkpoint is kept"
    learner.rlimit(psutil.RLIMIT_FSIZE, (-1, -1))
    assert printed("can be written again")
    children = learner.children(recursive=True)
    signal_session(run.pid, signal.SIGINT)
    out = finish(run)
    assert "stopped with CTRL+C or a signal at" in out and "Traceback" not in out
    assert out.splitlines()[-1].startswith("resume with: ")
    assert not psutil.wait_procs(children, timeout=60)[1]
    steps = [report["agent_steps"] for report in reports(folder)]
    gaps = [after - before for before, after in pairwise([0, *steps])]
    assert len(gaps) > 2
    assert max(gaps) <= 100 + 2 * 5, "a report is missing: there is one per period, after the update that completes it"
    assert find_checkpoint(str(folder)).agent_steps == steps[-1]
