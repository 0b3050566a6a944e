"""How regularly actions take effect in a game that does not wait, and how old the screens behind them are."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.realtime.schedule import needed_processes


class ActionTiming:
    """Sums since the latest report. Ages and intervals are in game frames.

    The age of an action is the number of frames from the screen that it was chosen from to the frame in which it took
    effect. The interval is from there to the frame in which the next action took effect. With a real clock, inference
    times, frames that missed their deadline, and what was lost are counted, too.
    """

    def __init__(self, layout: UnrollLayout, skipped_frames: int, fps: float = 0.0, processes: int = 0) -> None:
        """With a real clock, `fps` frames a second are played, and each worker has `processes` for inference."""
        self.processes = processes
        self.action_ms_before: float | None = None  # in the interval before, or in the parent of a resumed run
        self._layout = layout
        self._skipped_frames = skipped_frames
        self._fps = fps
        self._sums: dict[str, float] = defaultdict(float)
        self._ages: Counter[int] = Counter()
        self._intervals: Counter[int] = Counter()
        self._longest = 0.0  # inference, in seconds

    @property
    def frames(self) -> int:
        """Game frames that were played."""
        return int(self._sums["frames"])

    def begin(self) -> None:
        """Start a new interval between reports."""
        self.action_ms_before = self.action_ms
        self._sums, self._longest = defaultdict(float), 0.0
        self._ages, self._intervals = Counter(), Counter()

    def add(self, row: Rows) -> None:
        """Count one unroll `[nbytes]`."""

        def field(name: str) -> NDArray[Any]:
            return self._layout.array(row, name)

        self._sums["frames"] += int(field("played_frames"))
        self._sums["idle"] += int(field("idle_frames"))
        valid = field("valid").astype(bool)
        self._ages.update(field("ages")[valid].tolist())
        followed = valid & ~field("ended").astype(bool)  # after the last action of an episode comes none
        self._intervals.update(np.rint(field("durations")[followed] * self._skipped_frames).astype(int).tolist())
        if self._layout.real_time:
            times = field("inference_times") / 1000
            lost = int((times == 0).sum())  # a decision whose process died has no time
            self._sums["lost"] += lost
            self._sums["inferences"] += len(times) - lost
            self._sums["seconds"] += float(times.sum())
            self._sums["missed"] += int(field("missed_frames"))
            self._sums["dropped"] += int(field("dropped_unrolls"))
            self._longest = max(self._longest, float(times.max()))

    def figures(self) -> dict[str, float | None]:
        """The figures of this interval, by their names in metrics.jsonl; None where nothing took effect."""
        ages, intervals = _values(self._ages), _values(self._intervals)
        figures = {
            "idle_share": self._sums["idle"] / self.frames if self.frames else None,
            "action_age_mean": float(ages.mean()) if ages.size else None,
            "action_age_95": float(np.quantile(ages, 0.95)) if ages.size else None,
            "action_age_max": float(ages[-1]) if ages.size else None,
            "action_interval_mean": float(intervals.mean()) if intervals.size else None,
            "action_interval_deviation": float(intervals.std()) if intervals.size else None,
            "action_interval_max": float(intervals[-1]) if intervals.size else None,
        }
        return figures | self._clock_figures() if self._layout.real_time else figures

    def _clock_figures(self) -> dict[str, float | None]:
        known, interval = self._sums["inferences"] > 0, self._skipped_frames / self._fps
        mean = self._sums["seconds"] / self._sums["inferences"] if known else 0.0
        return {
            "missed_share": self._sums["missed"] / self.frames if self.frames else None,
            "inference_ms_mean": 1000 * mean if known else None,
            "inference_ms_max": 1000 * self._longest if known else None,
            "needed_processes_mean": needed_processes(mean, interval) if known else None,
            "needed_processes_max": needed_processes(self._longest, interval) if known else None,
            "lost_decisions": int(self._sums["lost"]),
            "dropped_unrolls": int(self._sums["dropped"]),
        }

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

    def state_dict(self) -> dict[str, Any]:
        counts = {"ages": list(self._ages.items()), "intervals": list(self._intervals.items())}
        return {"sums": dict(self._sums), "longest": self._longest, **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._sums, self._longest = defaultdict(float, state["sums"]), float(state["longest"])
        self._ages, self._intervals = Counter(dict(state["ages"])), Counter(dict(state["intervals"]))


def make_timing(config: Config, layout: UnrollLayout, inference_processes: int) -> ActionTiming | None:
    """The counters of a run whose games do not wait; None for one that plays in turns."""
    if not layout.delayed_actions:
        return None
    return ActionTiming(layout, config.environment.skipped_frames, config.realtime.fps, inference_processes)


def _values(counts: Counter[int]) -> NDArray[np.int64]:
    """All values in ascending order, each as often as it was counted."""
    values = sorted(counts)
    return np.repeat(np.array(values, dtype=np.int64), [counts[value] for value in values])
