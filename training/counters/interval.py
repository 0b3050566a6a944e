"""Sums since the latest report: time by stage, means of the learner's figures, policy lag, replay draws."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from replay.batch_mix import Batch
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue
from training.counters.draw_statistics import DrawStatistics

STAGES = ("wait", "drain", "mix", "update", "publish", "save", "report")  # of the learner's time
NEVER = 2**62  # larger than the number of any update


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
        self.draws = DrawStatistics()
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
        self.draws.add(batch)
        values, names = torch.stack([figure.float() for figure in figures.values()]), tuple(figures)
        # All updates report the same figures. Where the names change, as with another --loss, the sums begin anew.
        if self._figure_sums is None or names != self._figure_names:
            self._figure_sums, self._figure_names, self.updates = torch.zeros_like(values), names, 0
        self._figure_sums = self._figure_sums.to(values.device) + values  # stays on the GPU: no update waits for it
        self.updates += 1
        diverged = torch.where(torch.isfinite(figures["total_loss"]), NEVER, updates)
        self._first_diverged = torch.minimum(self._first_diverged.to(diverged.device), diverged)

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

    def state_dict(self, seconds: float) -> dict[str, Any]:
        """For a checkpoint written after `seconds` of training; the resumed run continues the interval."""
        return {
            "stretch_steps": self.begun_steps,
            "stretch_seconds": seconds - self.begun_seconds,
            "stage_seconds": dict(self.stage_seconds),
            "learned": None if self._figure_sums is None else self._figure_sums.tolist(),
            "learned_names": list(self._figure_names),
            "updates_learned": self.updates,
            "lags": [self._lag_sum, self._lag_count, self._lag_max],
            "draw_sums": self.draws.rows,
            "draws": self.draws.draws,
            "reported_info": dict(zip(self._layout.reported_info, self.reported_info.tolist(), strict=True)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.begin(state["seconds"] - state["stretch_seconds"], state["stretch_steps"])
        self.stage_seconds |= state["stage_seconds"]
        learned = state["learned"]
        self._figure_sums = None if learned is None else torch.tensor(learned, dtype=torch.float32)
        self._figure_names, self.updates = tuple(state["learned_names"]), int(state["updates_learned"])
        self._lag_sum, self._lag_count, self._lag_max = map(int, state["lags"])
        self.draws = DrawStatistics(state["draw_sums"], state["draws"])
        for name, sums in state.get("reported_info", {}).items():  # the environment may report others by now
            if name in self._layout.reported_info:
                self.reported_info[self._layout.reported_info.index(name)] = sums


class StageTimer:
    """The learner's time by stage: in the interval, and in the run since its first unroll.

    The time before the first unroll is left out, because the workers are still starting.
    """

    def __init__(self, interval: Interval) -> None:
        self._interval = interval
        self._totals = dict.fromkeys(STAGES, 0.0)
        self._at_first_unroll: tuple[float, dict[str, float]] | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        begun = time.perf_counter()
        yield
        spent = time.perf_counter() - begun
        self._interval.stage_seconds[name] += spent
        self._totals[name] += spent

    def after_unroll(self, seconds: float) -> None:
        """Called for each unroll; the first call of a run starts the measurement of `shares_of_run`."""
        if self._at_first_unroll is None:
            self._at_first_unroll = seconds, dict(self._totals)

    def shares_of_run(self, seconds: float) -> dict[str, float]:
        """Fractions of the run's time by stage, since its first unroll."""
        begun, before = self._at_first_unroll or (seconds, self._totals)
        whole = max(seconds - begun, 1e-9)
        return {name: (total - before[name]) / whole for name, total in self._totals.items()}


def without_interval(state: Mapping[str, Any]) -> dict[str, Any]:
    """A saved progress with a new interval, as right after a report."""
    empty = {
        "stretch_steps": state["agent_steps"],
        "stretch_seconds": 0.0,
        "stage_seconds": dict.fromkeys(STAGES, 0.0),
        "learned": None,
        "learned_names": [],
        "updates_learned": 0,
        "lags": [0, 0, 0],
        "reported_info": {},
    }
    kept = {name: value for name, value in state.items() if name != "action_timing"}
    return without_draws({**kept, **empty})


def without_draws(state: Mapping[str, Any]) -> dict[str, Any]:
    """A saved progress without the replay draws of its interval."""
    return {**state, "draw_sums": [], "draws": 0}
