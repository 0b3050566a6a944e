"""Sums since the latest report: time by stage, means of the learner's figures, policy lag, replay draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue

STAGES = ("wait", "drain", "mix", "update", "publish", "save", "report")  # of the learner's time
NEVER = 2**62  # larger than the number of any update
# What is summed over the draws from each replay.
AGE, TIMES_DRAWN, CANDIDATES, SECONDS, RANKED, DISTANCE_DRAWN, DISTANCE_CANDIDATES = range(SUMS := 7)


class Interval:
    """Sums from one report to the next. `seconds` and `agent_steps` are those of the run."""

    def __init__(self, layout: UnrollLayout) -> None:
        self._layout = layout
        self.begin(0.0, 0)

    def begin(self, seconds: float, agent_steps: int) -> None:
        """Start a new interval."""
        self.begun_seconds, self.begun_steps = seconds, agent_steps
        self.stage_seconds = dict.fromkeys(STAGES, 0.0)
        self.updates = 0
        self._figure_sums: torch.Tensor | None = None
        self._figure_names: tuple[str, ...] = ()
        self._first_diverged = torch.tensor(NEVER)  # the first update whose loss was not finite
        self._lag_sum = self._lag_count = self._lag_max = 0  # of fresh unrolls
        self._draws = 0
        self._draw_sums: list[list[float]] = []  # one row for each replay
        # Of entries of the environments' `info`: their sum, and the number of steps that had them.
        self.reported_info = np.zeros((len(self._layout.reported_info), 2))

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
        values, names = torch.stack([figure.float() for figure in figures.values()]), tuple(figures)
        # All updates report the same figures. Where the names change, as with another --loss, the sums begin anew.
        if self._figure_sums is None or names != self._figure_names:
            self._figure_sums, self._figure_names, self.updates = torch.zeros_like(values), names, 0
        self._figure_sums = self._figure_sums.to(values.device) + values  # stays on the GPU: no update waits for it
        self.updates += 1
        diverged = torch.where(torch.isfinite(figures["total_loss"]), NEVER, updates)
        self._first_diverged = torch.minimum(self._first_diverged.to(diverged.device), diverged)

    def add_draws(self, batch: Batch) -> None:
        """Count what the replays tell of the draws of one batch."""
        if not self._draws:
            self._draw_sums = [[0.0] * SUMS for _ in batch.draws]
        self._draws += 1
        for row, (drawn, age, seconds) in zip(self._draw_sums, batch.draws, strict=True):
            row[AGE] += age
            row[TIMES_DRAWN] += drawn.times_drawn
            row[CANDIDATES] += drawn.candidates
            row[SECONDS] += seconds
            if drawn.distance_drawn is not None and drawn.distance_candidates is not None:
                row[RANKED] += 1
                row[DISTANCE_DRAWN] += drawn.distance_drawn
                row[DISTANCE_CANDIDATES] += drawn.distance_candidates

    def first_diverged_update(self) -> int | None:
        """The first update of this interval whose loss was NaN or infinite; None without one. Waits for the GPU."""
        first = int(self._first_diverged)
        return None if first == NEVER else first

    def figures(self) -> dict[str, float | None]:
        """The learner's figures, averaged over the updates of this interval; empty before its first update."""
        if self._figure_sums is None:
            return {}
        means = (self._figure_sums / self.updates).tolist()
        return dict(zip(self._figure_names, means, strict=True))

    def environment_figures(self) -> dict[str, JsonValue]:
        """Under `environment`, the mean of each reported entry of `info`, over the steps that had it."""
        names = self._layout.reported_info
        means = [total / steps if steps else None for total, steps in self.reported_info.tolist()]
        return {"environment": dict(zip(names, means, strict=True))} if names else {}

    def lag(self) -> tuple[float | None, int | None]:
        """Mean and maximum policy lag of the fresh unrolls, in updates."""
        return (self._lag_sum / self._lag_count, self._lag_max) if self._lag_count else (None, None)

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
            for row in self._draw_sums
        ]

    def draw_seconds(self) -> list[float]:
        """The time that the draws took, for each replay."""
        return [row[SECONDS] for row in self._draw_sums]

    def state_dict(self, seconds: float) -> dict[str, Any]:
        """For a checkpoint written after `seconds` of training; the resumed run continues the interval."""
        sums = [] if self._figure_sums is None else self._figure_sums.tolist()
        return {
            "begun_steps": self.begun_steps,
            "seconds": seconds - self.begun_seconds,
            "stage_seconds": dict(self.stage_seconds),
            "learned": dict(zip(self._figure_names, sums, strict=True)),
            "updates": self.updates,
            "lags": [self._lag_sum, self._lag_count, self._lag_max],
            "draws": self._draws,
            "draw_sums": [list(row) for row in self._draw_sums],
            "reported_info": dict(zip(self._layout.reported_info, self.reported_info.tolist(), strict=True)),
        }

    def load_state_dict(self, state: Mapping[str, Any], seconds: float) -> None:
        self.begin(seconds - state["seconds"], int(state["begun_steps"]))
        self.stage_seconds |= state["stage_seconds"]
        if state["learned"]:
            self._figure_names = tuple(state["learned"])
            self._figure_sums = torch.tensor(list(state["learned"].values()), dtype=torch.float32)
        self.updates, self._draws = int(state["updates"]), int(state["draws"])
        self._lag_sum, self._lag_count, self._lag_max = map(int, state["lags"])
        self._draw_sums = [list(map(float, row)) for row in state["draw_sums"]]
        for name, sums in state["reported_info"].items():  # the environment may report others by now
            if name in self._layout.reported_info:
                self.reported_info[self._layout.reported_info.index(name)] = sums
