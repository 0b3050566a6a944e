"""Sums since the latest report: time by stage, means of the learner's figures, policy lag, replay draws, and in a game
that does not wait when actions take effect, and how old the screens behind them are."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from option_flags import Config
from replay.mix import Batch
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue
from workers.realtime.schedule import needed_processes

STAGES = ("wait", "drain", "mix", "update", "publish", "save", "report")  # of the learner's time


class Interval:
    """Sums from one report to the next. `seconds` and `agent_steps` are those of the run.

    The age of an action is the number of frames from the screen that it was chosen from to the frame in which it took
    effect. The interval of actions is from there to the frame in which the next one took effect. With a real clock,
    inference times, frames that missed their deadline, and what was lost are counted, too.
    """

    def __init__(self, config: Config, layout: UnrollLayout) -> None:
        self._layout = layout
        self._skipped_frames, self._fps = config.environment.skipped_frames, config.realtime.fps
        self.action_ms_before: float | None = None  # in the interval before, or in the parent of a resumed run
        self._ages: Counter[int] = Counter()
        self.begin(0.0, 0)

    def begin(self, seconds: float, agent_steps: int) -> None:
        """Start a new interval."""
        self.action_ms_before = self.action_ms
        self.begun_seconds, self.begun_steps = seconds, agent_steps
        self.updates = 0
        self._sums: dict[str, float] = defaultdict(float)
        self._most: dict[str, float] = defaultdict(float)
        self._figure_names: tuple[str, ...] = ()
        self._figure_sums = torch.zeros(())
        self._ages = Counter()
        self._intervals: Counter[int] = Counter()

    # --- Counting -----------------------------------------------------------------------------------------------------

    def add_time(self, stage: str, seconds: float) -> None:
        self._sums[stage] += seconds

    def add_unroll(self, row: Rows) -> None:
        """Count what one unroll `[nbytes]` tells besides its games."""
        if not self._layout.delayed_actions:
            return

        def field(name: str) -> NDArray[Any]:
            return self._layout.array(row, name)

        for name in ("played_frames", "idle_frames"):
            self._sums[name] += int(field(name))
        valid = field("valid").astype(bool)
        self._ages.update(field("ages")[valid].tolist())
        followed = valid & ~field("ended").astype(bool)  # after the last action of an episode comes none
        self._intervals.update(np.rint(field("durations")[followed] * self._skipped_frames).astype(int).tolist())
        if self._layout.real_time:
            times = field("inference_times") / 1000
            lost = int((times == 0).sum())  # a decision whose process died has no time
            for name in ("missed_frames", "dropped_unrolls"):
                self._sums[name] += int(field(name))
            self._sums["lost"] += lost
            self._sums["inferences"] += len(times) - lost
            self._sums["inference"] += float(times.sum())
            self._most["inference"] = max(self._most["inference"], float(times.max()))

    def add_update(self, batch: Batch, figures: Mapping[str, torch.Tensor], updates: int) -> None:
        """Count one update; `updates` is the learner's count after it.

        The lag of a fresh unroll is the number of updates between the weights that played it and this update.
        """
        versions = self._layout.array(batch.rows.numpy(), "weight_version")[batch.fresh]
        if len(versions):
            lags = updates - 1 - versions
            self._sums["lag"] += int(lags.sum())
            self._sums["fresh"] += len(lags)
            self._most["lag"] = max(self._most["lag"], int(lags.max()))
        self.add_draws(batch)
        # On the GPU: no update waits for it.
        values = torch.stack([figure.float() for figure in figures.values()])
        if tuple(figures) != self._figure_names:  # the first update, or the first one with another --loss
            self._figure_names, self._figure_sums, self.updates = tuple(figures), torch.zeros(len(figures)), 0
        self._figure_sums = self._figure_sums.to(values.device) + values
        self.updates += 1

    def add_draws(self, batch: Batch) -> None:
        """Count what the replays tell of the draws of one batch."""
        self._sums["draws"] += 1
        for replay, drawn in enumerate(batch.draws):
            told = {name: getattr(drawn, name) for name in ("age", "times_drawn", "candidates", "seconds")}
            if drawn.distance_drawn is not None and drawn.distance_candidates is not None:
                told |= {"ranked": 1, "drawn": drawn.distance_drawn, "of_candidates": drawn.distance_candidates}
            for name, value in told.items():
                self._sums[f"{replay}/{name}"] += value

    # --- Reporting ----------------------------------------------------------------------------------------------------

    @property
    def has_diverged(self) -> bool:
        """Whether a loss of this interval was NaN or infinite. Waits for the GPU."""
        return self.updates > 0 and not math.isfinite(self._figure_sums[self._figure_names.index("total_loss")])

    @property
    def played_frames(self) -> int:
        """Game frames that were played; in a game that waits they are not counted."""
        return int(self._sum("played_frames"))

    @property
    def action_ms(self) -> float | None:
        """The latest median age of actions without the frame in which they wait for the next one; None without a clock.

        It is a median: where the run pauses, some actions are as old as the pause is long.
        """
        if not self._layout.real_time:
            return None
        if not self._ages:
            return self.action_ms_before
        return max(0.0, float(np.median(_values(self._ages))) - 1) * 1000 / self._fps

    def learned(self) -> dict[str, float | None]:
        """The learner's figures, averaged over the updates of this interval; empty before its first update."""
        means = (self._figure_sums / self.updates).tolist() if self.updates else []
        return dict(zip(self._figure_names, means, strict=True))

    def figures(self, seconds: float) -> dict[str, JsonValue]:
        """The figures of this interval, which has taken so many seconds, by their names in metrics.jsonl."""
        per_update = 1000 / self.updates if self.updates else None
        return {
            "policy_lag_mean": self._mean("lag", "fresh"),
            "policy_lag_max": int(self._most["lag"]) if self._sum("fresh") else None,
            "updates_per_second": self.updates / seconds,
            "learner_wait_fraction": self._sum("wait") / seconds,
            "update_ms": per_update and per_update * self._sum("update"),
            "publish_ms": per_update and per_update * self._sum("publish"),
            "time_shares": {name: self._sum(name) / seconds for name in STAGES},
            **self.learned(),
            **(self.action_figures() if self._layout.delayed_actions else {}),
            **(self.clock_figures() if self._layout.real_time else {}),
        }

    def action_figures(self) -> dict[str, JsonValue]:
        """Those of a game that does not wait; None where nothing took effect."""
        ages, intervals = _values(self._ages), _values(self._intervals)
        return {
            "idle_share": self._mean("idle_frames", "played_frames"),
            "action_age_mean": float(ages.mean()) if ages.size else None,
            "action_age_95": float(np.quantile(ages, 0.95)) if ages.size else None,
            "action_age_max": float(ages[-1]) if ages.size else None,
            "action_interval_mean": float(intervals.mean()) if intervals.size else None,
            "action_interval_deviation": float(intervals.std()) if intervals.size else None,
            "action_interval_max": float(intervals[-1]) if intervals.size else None,
        }

    def clock_figures(self) -> dict[str, JsonValue]:
        mean, interval = self._mean("inference", "inferences"), self._skipped_frames / self._fps
        longest = None if mean is None else self._most["inference"]
        return {
            "missed_share": self._mean("missed_frames", "played_frames"),
            "inference_ms_mean": mean and 1000 * mean,
            "inference_ms_max": longest and 1000 * longest,
            "needed_processes_mean": mean and needed_processes(mean, interval),
            "needed_processes_max": longest and needed_processes(longest, interval),
            "lost_decisions": int(self._sum("lost")),
            "dropped_unrolls": int(self._sum("dropped_unrolls")),
        }

    def draw_figures(self, replay: int) -> dict[str, JsonValue]:
        """The means of one replay, empty before its first draw. Distances are NaN if no draw of it ranked."""
        if f"{replay}/age" not in self._sums:
            return {}

        def mean(name: str, count: float = self._sum("draws")) -> float:
            return self._sum(f"{replay}/{name}") / (count or float("nan"))

        ranked = self._sum(f"{replay}/ranked")
        return {
            "age_mean": mean("age"),
            "times_drawn_mean": mean("times_drawn"),
            "lambda": mean("candidates"),
            "distance_drawn": mean("drawn", ranked),
            "distance_candidates": mean("of_candidates", ranked),
        }

    def draw_seconds(self, replay: int) -> float | None:
        """The time that the draws from one replay took."""
        return self._sums.get(f"{replay}/seconds")

    def _mean(self, name: str, count: str) -> float | None:
        return self._sum(name) / self._sum(count) if self._sum(count) else None

    def _sum(self, name: str) -> float:
        return self._sums.get(name, 0.0)

    # --- Saving -------------------------------------------------------------------------------------------------------

    def state_dict(self, seconds: float) -> dict[str, Any]:
        """For a checkpoint written after `seconds` of training; the resumed run continues the interval."""
        return {
            "begun_steps": self.begun_steps,
            "seconds": seconds - self.begun_seconds,
            "updates": self.updates,
            "sums": dict(self._sums),
            "most": dict(self._most),
            "figures": dict(zip(self._figure_names, self._figure_sums.tolist(), strict=True)) if self.updates else {},
            "ages": dict(self._ages),
            "intervals": dict(self._intervals),
        }

    def load_state_dict(self, state: Mapping[str, Any], seconds: float) -> None:
        self.begin(seconds - state["seconds"], int(state["begun_steps"]))
        self.updates = int(state["updates"])
        self._sums.update(state["sums"])
        self._most.update(state["most"])
        self._figure_names = tuple(state["figures"])
        self._figure_sums = torch.tensor(list(state["figures"].values()))
        self._ages.update(state["ages"])
        self._intervals.update(state["intervals"])


def _values(counts: Counter[int]) -> NDArray[np.int64]:
    """All values in ascending order, each as often as it was counted."""
    values = sorted(counts)
    return np.repeat(np.array(values, dtype=np.int64), [counts[value] for value in values])
