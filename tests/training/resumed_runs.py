"""Helpers for tests of resumed runs: options of small runs, early ends of runs, and the comparison of two runs."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from run_files.checkpoint import Checkpoint, find_checkpoint
from run_files.replay_file import read_tensor_file
from tests.training.catch_runs import MIXED, reports
from training.interval import STAGES
from training.progress import Progress

SMALL: dict[str, Any] = {
    "seed": 4,
    "worker_count": 2,
    "envs_per_worker": 3,
    "batch_size": 4,
    "r_f_steps": 5,
    "frame_scale_resolution": "36,36",
    "replay_parameters": MIXED,
    "report_period": 100,
    "lr_scheduler_steps": 500,
    "console": "off",
    "curves": False,
}
# Figures of the machine, in which equal runs may differ.
OF_THE_MACHINE = {
    *("time", "seconds", "steps_per_second", "frames_per_second", "learner_wait_fraction", "time_shares"),
    *("replay_time_shares", "memory_learner_mb", "memory_workers_mb"),
    *("updates_per_second", "update_ms", "publish_ms", "core_seconds_per_1000_frames"),
    *("cpu_learner", "cpu_workers", "worker_time_shares", "gpu_utilization", "gpu_memory_mb"),
    *("wait_for_learners_fraction", "learners"),
}


def games(*folders: Path) -> list[str]:
    return [line for folder in folders for line in (folder / "episodes.csv").read_text().splitlines()[1:]]


def comparable_reports(*folders: Path) -> list[dict[str, Any]]:
    lines = [report for folder in folders for report in reports(folder)]
    return [{name: value for name, value in line.items() if name not in OF_THE_MACHINE} for line in lines]


def assert_equal(first: Any, second: Any, name: str) -> None:
    """The same types and values at every level of nesting; NaN, a figure of no states, equals NaN."""
    assert type(first) is type(second), name
    if isinstance(first, dict):
        assert first.keys() == second.keys(), name
        for key in first:
            assert_equal(first[key], second[key], f"{name}.{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), name
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            assert_equal(one, other, f"{name}[{index}]")
    elif isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype and torch.equal(first, second), name
    else:
        assert first == second or (isinstance(first, float) and math.isnan(first) and math.isnan(second)), name


def assert_same_state(first: Checkpoint, second: Checkpoint) -> None:
    """Everything that a resumed run loads: weights, optimizer, counters, games, unrolls in flight, and replays."""
    assert first.content["in_flight"] is not None
    for name in ("learner", "in_flight"):
        assert_equal(first.content[name], second.content[name], name)
    progress, replays = [], []
    for saved in (first, second):
        interval = {name: v for name, v in saved.content["progress"]["interval"].items() if "seconds" not in name}
        sums = interval["sums"].items()
        interval["sums"] = {name: v for name, v in sums if name not in STAGES and "seconds" not in name}
        progress.append({**saved.content["progress"], "seconds": 0.0, "interval": interval})
        for name in ("best_return_mean", "best_return_steps"):  # updated at each save; each interruption adds a save
            progress[-1].pop(name)
        replays.append({**read_tensor_file(saved.replay_path), "options": {}})  # in which a resumed run differs
        for batch in replays[-1]["mix"]["prepared"]:
            batch["draws"] = [tuple(draw)[:-1] for draw in batch["draws"]]  # without the seconds that it took
    assert_equal(progress[0], progress[1], "progress")
    assert_equal(replays[0], replays[1], "replays")


def assert_same_run(whole: Path, *lineage: Path) -> None:
    """All lines are equal, except that a parent that reached its number of steps wrote one more report there."""
    assert_same_state(find_checkpoint(str(whole)), find_checkpoint(str(lineage[-1])))
    expected, lines = comparable_reports(whole), comparable_reports(*lineage)
    ends = [reports(part)[-1]["agent_steps"] for part in lineage[:-1] if reports(part)]
    assert [line for line in lines if line in expected] == expected
    assert all(line["agent_steps"] in ends for line in lines if line not in expected)
    assert games(whole) == games(*lineage)


def ending_at(steps: int) -> Callable[..., Progress]:
    """A replacement of Progress that ends a run at `steps`, like an interruption; its plans stay the same."""

    def make(*arguments: Any, **named: Any) -> Progress:
        progress = Progress(*arguments, **named)
        progress.max_steps = steps
        return progress

    return make


def stop_at_once(*_: object) -> None:
    """A replacement of the training loop, as if a signal came before the first unroll."""


def copy_of(run: Path, results: Path) -> Path:
    return Path(shutil.copytree(run, results / "parent"))
