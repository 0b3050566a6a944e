"""Measure training with the real processes, and how its time is spent."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from option_flags import OPTIONS, Config
from options.presets import FRESH_ALONE
from run_files.metrics import Report
from tests.read_metrics import read_metrics

ROOT = Path(__file__).resolve().parents[2]
REPORT_PERIOD = 1000  # agent steps; a measurement begins and ends at a report
BURN_IN_SECONDS = 4.0  # after the first update
START_SECONDS = 180.0  # a run must have had its first update by then
STOP_SECONDS = 60.0

HALF_STANDARD = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5},'
    ' {"type": "standard", "capacity": 1000, "sample_ratio": 0.5}]'
)
OLDER = {
    "batch_size": 10,
    "r_f_steps": 10,
    "worker_count": 2,
    "envs_per_worker": 2,
    "replay_parameters": HALF_STANDARD,
}
EARLIER_PLATFORM = 260.0  # agent steps/s of the earlier platform with that command on two cores


@dataclass(frozen=True)
class Setup:
    """A run to measure. Flags of the command line override its own."""

    name: str
    flags: Mapping[str, Any]

    @property
    def is_older_command(self) -> bool:
        return self.name.startswith("older")


SETUPS = (
    Setup("plain", {"replay_parameters": FRESH_ALONE}),
    Setup("replay", {"replay_parameters": OPTIONS["replay_parameters"].default}),  # named: no settings replace it
    Setup("older", OLDER),
    Setup("older_conv3", {**OLDER, "network": "conv3"}),
)


@dataclass(frozen=True)
class RunFigures:
    """Figures over the measured time."""

    seconds: float
    steps_per_second: float
    frames_per_second: float
    learner_seconds: float  # of CPU, per agent step
    workers_seconds: float
    others_cores: float  # used by other programs, in cores
    learner_shares: dict[str, float]  # of the learner's time, by stage
    worker_shares: dict[str, float]


def train(flags: Mapping[str, Any], seconds: float) -> RunFigures:
    """Measure a run for `seconds`, from some seconds after its first update on; then end it like CTRL+C."""
    with tempfile.TemporaryDirectory() as results:
        process = subprocess.Popen([sys.executable, "main.py", *command_line(flags, results)], cwd=ROOT)
        try:
            reports, busy_cores = follow(process, Path(results), seconds)
            process.send_signal(signal.SIGINT)
            process.wait(STOP_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return figures(reports, busy_cores)


def command_line(flags: Mapping[str, Any], results: str) -> list[str]:
    """The flags of a measured run. No curves are drawn: each drawing takes a second or two of a core."""
    # environment_max_steps ends the run even if this process dies.
    words: dict[str, Any] = {"environment_max_steps": 5_000_000, "lr_scheduler_steps": 37_500, "seed": 1}
    words |= {"report_period": REPORT_PERIOD, **flags}
    words |= {"op_mode": "train", "results_dir": results, "console": "off", "curves": False}
    return [f"--{name}={value}" for name, value in words.items()]


def follow(process: "subprocess.Popen[bytes]", results: Path, seconds: float) -> tuple[list[Report], float]:
    """The reports of the measured time and the one before it, and how many cores all programs together used."""
    started = time.monotonic()
    mark: tuple[float, float] | None = None
    while True:
        time.sleep(0.25)
        if process.poll() is not None:
            raise RuntimeError(f"the run ended with code {process.returncode} before it could be measured")
        learning = [report for path in results.glob("*/metrics.jsonl") for report in read_metrics(path)]
        learning = [report for report in learning if report["updates"]]
        warm = [r for r in learning if number(r, "seconds") >= number(learning[0], "seconds") + BURN_IN_SECONDS]
        if warm and mark is None:
            mark = time.monotonic(), busy_seconds()
        if mark and number(warm[-1], "seconds") - number(warm[0], "seconds") >= seconds:
            return warm, (busy_seconds() - mark[1]) / (time.monotonic() - mark[0])
        if not learning and time.monotonic() - started > START_SECONDS:
            raise RuntimeError(f"the run had no update within {START_SECONDS:g} seconds")


def busy_seconds() -> float:
    """CPU seconds of all cores together since the machine started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def number(report: Report, name: str) -> float:
    return float(str(report[name]))


def figures(reports: Sequence[Report], busy_cores: float) -> RunFigures:
    """Means over the reports after the first, each weighted with its interval."""
    first, last = reports[0], reports[-1]
    ends = [number(report, "seconds") for report in reports]
    weights = [end - begin for begin, end in pairwise(ends)]
    whole = sum(weights)

    def mean(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / whole

    def shares(name: str) -> dict[str, float]:
        each: list[Any] = [report[name] for report in reports[1:]]
        return {stage: mean([float(one[stage] or 0.0) for one in each]) for stage in each[0]}

    speed = (number(last, "agent_steps") - number(first, "agent_steps")) / whole
    learner = mean([number(report, "cpu_learner") for report in reports[1:]]) / 100  # cores
    workers = mean([number(report, "cpu_workers") for report in reports[1:]]) / 100
    frames = (number(last, "frames") - number(first, "frames")) / whole
    return RunFigures(
        seconds=whole,
        steps_per_second=speed,
        frames_per_second=frames,
        learner_seconds=learner / speed,
        workers_seconds=workers / speed,
        others_cores=max(0.0, busy_cores - learner - workers),
        learner_shares=shares("time_shares"),
        worker_shares=shares("worker_time_shares"),
    )


def configure(setup: Setup, given: Mapping[str, Any]) -> Config:
    return Config.from_flags({**setup.flags, **given})
