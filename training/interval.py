"""Sums since the latest report: time by stage, means of the learner's figures, policy lag, replay draws."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from replay.mix import Batch
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue
from training.action_timing import ActionTiming

STAGES = ("wait", "drain", "mix", "update", "publish", "save", "report")  # of the learner's time
# What is summed over the draws from each replay.
AGE, TIMES_DRAWN, CANDIDATES, SECONDS, RANKED, DISTANCE_DRAWN, DISTANCE_CANDIDATES = range(SUMS := 7)


class Interval:
    """Sums from one report to the next. `seconds` and `agent_steps` are those of the run."""

    def __init__(self, layout: UnrollLayout, timing: ActionTiming | None = None) -> None:
        """`timing` sums up, too, in a game that does not wait."""
        self._layout = layout
        self._timing = timing
        self.begin(0.0, 0)

    def begin(self, seconds: float, agent_steps: int) -> None:
        """Start a new interval."""
        self.begun_seconds, self.begun_steps = seconds, agent_steps
        self.stage_seconds = dict.fromkeys(STAGES, 0.0)
        self.updates = 0
        self._figure_names: tuple[str, ...] = ()
        self._figure_sums = torch.zeros(())
        self._lag_sum = self._lag_count = self._lag_max = 0  # of fresh unrolls
        self._draws = 0
        self._draw_sums = np.zeros((0, SUMS))  # one row for each replay
        if self._timing is not None:
            self._timing.begin()

    def add_unroll(self, row: Rows) -> None:
        """Count what one unroll `[nbytes]` tells besides its games."""
        if self._timing is not None:
            self._timing.add(row)

    def add_update(self, batch: Batch, figures: Mapping[str, torch.Tensor], updates: int) -> None:
        """Count one update; `updates` is the learner's count after it.

        The lag of a fresh unroll is the number of updates between the weights that played it and this update.
        """
        versions = self._layout.array(batch.rows.numpy(), "weight_version")[batch.fresh]
        if len(versions):
            lags = updates - 1 - versions
            self._lag_sum, self._lag_count = self._lag_sum + int(lags.sum()), self._lag_count + len(lags)
            self._lag_max = max(self._lag_max, int(lags.max()))
        self.add_draws(batch)
        # On the GPU: no update waits for it.
        values = torch.stack([figure.float() for figure in figures.values()])
        if tuple(figures) != self._figure_names:  # the first update, or the first one with another --loss
            self._figure_names, self._figure_sums, self.updates = tuple(figures), torch.zeros(len(figures)), 0
        self._figure_sums = self._figure_sums.to(values.device) + values
        self.updates += 1

    def add_draws(self, batch: Batch) -> None:
        """Count what the replays tell of the draws of one batch."""
        rows = [
            [age, drawn.times_drawn, drawn.candidates, seconds]
            + [drawn.distance_drawn is not None, drawn.distance_drawn or 0.0, drawn.distance_candidates or 0.0]
            for drawn, age, seconds in batch.draws
        ]
        self._draw_sums = np.array(rows, float).reshape(-1, SUMS) + (self._draw_sums if self._draws else 0.0)
        self._draws += 1

    @property
    def has_diverged(self) -> bool:
        """Whether a loss of this interval was NaN or infinite. Waits for the GPU."""
        return self.updates > 0 and not math.isfinite(self._figure_sums[self._figure_names.index("total_loss")])

    def learned(self) -> dict[str, float | None]:
        """The learner's figures, averaged over the updates of this interval; empty before its first update."""
        means = (self._figure_sums / self.updates).tolist() if self.updates else []
        return dict(zip(self._figure_names, means, strict=True))

    def figures(self, seconds: float) -> dict[str, JsonValue]:
        """The figures of this interval, which has taken so many seconds, by their names in metrics.jsonl."""
        stages, per_update = self.stage_seconds, 1000 / self.updates if self.updates else None
        return {
            "policy_lag_mean": self._lag_sum / self._lag_count if self._lag_count else None,
            "policy_lag_max": self._lag_max if self._lag_count else None,
            "updates_per_second": self.updates / seconds,
            "learner_wait_fraction": stages["wait"] / seconds,
            "update_ms": per_update and per_update * stages["update"],
            "publish_ms": per_update and per_update * stages["publish"],
            "time_shares": {name: value / seconds for name, value in stages.items()},
            **self.learned(),
            **({} if self._timing is None else self._timing.figures()),
        }

    def draw_figures(self) -> list[dict[str, JsonValue]]:
        """The means of each replay, empty before the first draw. Distances are NaN if no draw of the replay ranked."""
        return [
            {
                "age_mean": row[AGE] / self._draws,
                "times_drawn_mean": row[TIMES_DRAWN] / self._draws,
                "lambda": row[CANDIDATES] / self._draws,
                "distance_drawn": row[DISTANCE_DRAWN] / (row[RANKED] or float("nan")),
                "distance_candidates": row[DISTANCE_CANDIDATES] / (row[RANKED] or float("nan")),
            }
            for row in self._draw_sums.tolist()
        ]

    def draw_seconds(self) -> list[float]:
        """The time that the draws took, for each replay."""
        seconds: list[float] = self._draw_sums[:, SECONDS].tolist()
        return seconds

    def state_dict(self, seconds: float) -> dict[str, Any]:
        """For a checkpoint written after `seconds` of training; the resumed run continues the interval."""
        return {
            "begun_steps": self.begun_steps,
            "seconds": seconds - self.begun_seconds,
            "stage_seconds": dict(self.stage_seconds),
            "updates": self.updates,
            "figure_names": list(self._figure_names),
            "figure_sums": self._figure_sums.tolist(),
            "lags": [self._lag_sum, self._lag_count, self._lag_max],
            "draws": self._draws,
            "draw_sums": self._draw_sums.tolist(),
            "action_timing": None if self._timing is None else self._timing.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], seconds: float) -> None:
        self.begin(seconds - state["seconds"], int(state["begun_steps"]))
        self.stage_seconds |= state["stage_seconds"]
        self.updates, self._draws = int(state["updates"]), int(state["draws"])
        self._figure_names, self._figure_sums = tuple(state["figure_names"]), torch.tensor(state["figure_sums"])
        self._lag_sum, self._lag_count, self._lag_max = map(int, state["lags"])
        self._draw_sums = np.array(state["draw_sums"], float).reshape(-1, SUMS)
        if self._timing is not None and state["action_timing"] is not None:
            self._timing.load_state_dict(state["action_timing"])
