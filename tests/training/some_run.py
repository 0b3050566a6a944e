"""A run for tests of what takes a run: nothing plays or learns in it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from learners.agreement import Agreement
from learners.group import OneLearner
from learners.rank import LearnerRank
from machine.stop_signals import StopSignals
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from reports.console import Console
from tests.catch import make_catch
from training.progress import Progress

LAYOUT = UnrollLayout(unroll_length=20, frame_shape=(1, 4, 4), frame_stack=1, action_sizes=(2,))


def some_progress(layout: UnrollLayout = LAYOUT, learners: int = 1, rank: int = 0, **flags: Any) -> Progress:
    """That of a run of 1,000 steps with one environment in each worker."""
    config = Config().replace_flags(**{"environment_max_steps": 1_000, "envs_per_worker": 1, **flags})
    return Progress(config, layout, LearnerRank(rank, learners))


def some_run(folder: Path, **parts: Any) -> Any:
    """A run in this folder with these parts in place of its own."""
    said: list[str] = []
    children = SimpleNamespace(restarts=0, process_ids=list)
    pool = SimpleNamespace(alive=1, size=1, children=children, failed_resets=0, rounds_under_way=0)
    times = SimpleNamespace(array=np.zeros((1, 6)))
    config = parts.pop("config", Config())
    progress = {
        "agent_steps": 0,
        "parent_steps": 0,
        "updates": 0,
        "interval": SimpleNamespace(has_diverged=False, action_ms=None),
        "unknown_goal": lambda: None,
        "evaluated_steps": 0,
        "best_eval_mean": None,
    }
    run = {
        "config": config,
        "part": config,
        "folder": folder,
        "layout": LAYOUT,
        "machine": SimpleNamespace(device=torch.device("cpu"), worker_precision=torch.float32, inference_processes=0),
        "make_environment": make_catch,
        "resume": SimpleNamespace(count=0, planned_updates=10, updates=0),
        "stop": StopSignals(),
        "console": Console(),
        "said": said,
        "announce": said.append,
        "status": "running",
        "summary_written_at": 0.0,
        "rank": LearnerRank(),
        "learners": OneLearner(),
        "agreement": Agreement(),
        "progress": SimpleNamespace(**progress),
        "learner": SimpleNamespace(updates=0, is_finite=lambda: True, weights_checksum=lambda: 4),
        "mix": SimpleNamespace(replays=[], is_warming_up=False),
        "actors": SimpleNamespace(pool=pool, times=times, node_figures=list),
    }
    return SimpleNamespace(**{**run, **parts})
