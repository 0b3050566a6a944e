"""How regularly actions take effect in a game that does not wait, and how old the screens behind them are."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout


class ActionTiming:
    """Sums since the latest report. Ages and intervals are in game frames.

    The age of an action is the number of frames from the screen that it was chosen from to the frame in which it took
    effect. The interval is from there to the frame in which the next action took effect.
    """

    processes = 0  # inference processes of each worker

    def __init__(self, layout: UnrollLayout, skipped_frames: int) -> None:
        self._layout = layout
        self._skipped_frames = skipped_frames
        self.action_ms_before: float | None = None  # in the interval before, or in the parent of a resumed run
        self._ages: Counter[int] = Counter()
        self.begin()

    def begin(self) -> None:
        """Start a new interval between reports."""
        self.action_ms_before = self.action_ms
        self.frames = self._idle_frames = 0
        self._ages = Counter()
        self._intervals: Counter[int] = Counter()

    def add(self, row: Rows) -> None:
        """Count one unroll `[nbytes]`."""
        fields = {
            name: self._layout.array(row, name)
            for name in ("valid", "ended", "ages", "durations", "played_frames", "idle_frames")
        }
        self.frames += int(fields["played_frames"])
        self._idle_frames += int(fields["idle_frames"])
        valid = fields["valid"].astype(bool)
        self._ages.update(fields["ages"][valid].tolist())
        followed = valid & ~fields["ended"].astype(bool)  # after the last action of an episode comes none
        self._intervals.update(np.rint(fields["durations"][followed] * self._skipped_frames).astype(int).tolist())

    def figures(self) -> dict[str, float | None]:
        """The figures of this interval, by their names in metrics.jsonl; None where nothing took effect."""
        ages, intervals = _values(self._ages), _values(self._intervals)
        return {
            "idle_share": self._idle_frames / self.frames if self.frames else None,
            "action_age_mean": float(ages.mean()) if ages.size else None,
            "action_age_95": float(np.quantile(ages, 0.95)) if ages.size else None,
            "action_age_max": float(ages[-1]) if ages.size else None,
            "action_interval_mean": float(intervals.mean()) if intervals.size else None,
            "action_interval_deviation": float(intervals.std()) if intervals.size else None,
            "action_interval_max": float(intervals[-1]) if intervals.size else None,
        }

    @property
    def action_ms(self) -> float | None:
        """The latest median time from a screen to its action; None without a clock."""
        return None

    def _median_age(self) -> float | None:
        ages = _values(self._ages)
        return float(np.median(ages)) if ages.size else None

    def state_dict(self) -> dict[str, Any]:
        return {
            "frames": self.frames,
            "idle_frames": self._idle_frames,
            "ages": list(self._ages.items()),
            "intervals": list(self._intervals.items()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.frames, self._idle_frames = state["frames"], state["idle_frames"]
        self._ages, self._intervals = Counter(dict(state["ages"])), Counter(dict(state["intervals"]))


def _values(counts: Counter[int]) -> NDArray[np.int64]:
    """All values in ascending order, each as often as it was counted."""
    values = sorted(counts)
    return np.repeat(np.array(values, dtype=np.int64), [counts[value] for value in values])
