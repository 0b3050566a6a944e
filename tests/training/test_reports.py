"""When a run reports, and what its display shows between two reports."""

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from option_flags import Config
from replay.mix import Batch
from reports.run_display import Status
from tests.training.some_run import LAYOUT, some_progress, some_run
from training.housekeeping import Housekeeping


class Run:
    """Housekeeping whose learner, workers and replays are what the test says."""

    def __init__(self, period: int) -> None:
        config = Config.from_flags({"environment_max_steps": 1000, "report_period": period})
        self.progress = some_progress()
        self.learner = SimpleNamespace(updates=0, weights_checksum=lambda: 0, is_finite=lambda: True)
        self.written: list[dict[str, Any]] = []
        self.shown: list[Status] = []
        self.nodes: list[dict[str, Any]] = []
        self.run = some_run(Path(), config=config, progress=self.progress, learner=self.learner, layout=LAYOUT)
        self.run.console = SimpleNamespace(show=lambda status, now: self.shown.append(status))
        self.run.part = SimpleNamespace(replay=SimpleNamespace(warmup_unrolls=[]), test=config.test)
        self.run.summary_written_at = math.inf
        self.run.actors.node_figures = lambda: list(self.nodes)
        self.housekeeping = Housekeeping(self.run, cast(Any, SimpleNamespace(write=self.written.append)))
        cost = lambda speed: {"core_seconds_per_1000_frames": 2.0 if speed else None}  # noqa: E731
        self.housekeeping._load = cast(Any, SimpleNamespace(figures=cost, begin_interval=lambda: None))

    def unroll(self) -> None:
        self.housekeeping.after_unroll(self.progress.count_unroll(np.zeros(LAYOUT.nbytes, np.uint8)))

    def update(self, loss: float) -> None:
        batch = Batch(torch.zeros((1, LAYOUT.nbytes), dtype=torch.uint8), np.array([True]))
        self.learner.updates += 1
        self.progress.count_update(
            batch, {"policy_loss": torch.tensor(loss), "total_loss": torch.tensor(loss)}, self.learner.updates
        )
        self.housekeeping.after_update()

    def loss_shown(self) -> float | None:
        self.housekeeping._show()
        return self.shown[-1]["policy_loss"]


def test_a_report_comes_with_the_update_that_completes_its_period() -> None:
    run = Run(period=40)
    for _ in range(6):
        run.unroll()
        run.update(loss=1.0)
    assert [report["agent_steps"] for report in run.written] == [40, 80, 120]


def test_the_display_keeps_the_losses_of_the_latest_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    run = Run(period=1000)
    run.unroll()
    assert run.loss_shown() is None
    run.update(loss=1.0)
    run.update(loss=2.0)
    now = 10.0
    assert run.loss_shown() == 1.5
    run.housekeeping._report()
    now = 11.0
    assert run.loss_shown() == 1.5, "the new interval is too short to be shown"
    now = 15.0
    assert run.loss_shown() == 1.5, "the new interval has no update"
    run.unroll()
    run.housekeeping._report()
    now = 30.0
    assert run.loss_shown() == 1.5
    run.update(loss=4.0)
    assert run.loss_shown() == 4.0
    assert [report["policy_loss"] for report in run.written] == [1.5, None]


def test_the_cost_of_a_run_is_not_known_where_other_machines_play() -> None:
    """Their CPU time is not in the load of this machine."""
    run = Run(period=20)
    for _ in range(2):
        run.unroll()
        run.update(1.0)
        run.nodes.append({"node": "10.0.0.7", "alive": True})
    first, second = (report["core_seconds_per_1000_frames"] for report in run.written)
    assert first == 2.0 and second is None
