"""How well a run in real time keeps to the clock."""

from collections.abc import Mapping
from typing import Any

from option_flags import Config
from realtime.staggering import needed_processes
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from training.counters.action_timing import ActionTiming


class ClockTiming(ActionTiming):
    """Also counts inference times, frames that missed their deadline, and what was lost."""

    def __init__(self, layout: UnrollLayout, skipped_frames: int, fps: float, processes: int = 0) -> None:
        """`processes` are the inference processes of each worker."""
        self.processes = processes
        self._interval = skipped_frames / fps  # seconds
        self._frame_ms = 1000 / fps
        super().__init__(layout, skipped_frames)

    def begin(self) -> None:
        super().begin()
        self._inferences = self._lost = self._missed = self._dropped = 0
        self._seconds = self._longest = 0.0  # of inferences: their sum, and the longest one

    def add(self, row: Rows) -> None:
        super().add(row)
        times = self._layout.array(row, "inference_times") / 1000
        lost = int((times == 0).sum())  # a decision whose process died has no time
        self._lost += lost
        self._inferences += len(times) - lost
        self._seconds += float(times.sum())
        self._longest = max(self._longest, float(times.max()))
        self._missed += int(self._layout.array(row, "missed_frames"))
        self._dropped += int(self._layout.array(row, "dropped_unrolls"))

    def state_dict(self) -> dict[str, Any]:
        sums = [self._inferences, self._lost, self._missed, self._dropped, self._seconds, self._longest]
        return {**super().state_dict(), "clock": sums}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if "clock" in state:  # missing if the parent's clock was a virtual one
            self._inferences, self._lost, self._missed, self._dropped, self._seconds, self._longest = state["clock"]

    @property
    def action_ms(self) -> float | None:
        """The age of actions without the frame in which they wait for the next one.

        It is a median: where the run pauses, some actions are as old as the pause is long.
        """
        age = self._median_age()
        return self.action_ms_before if age is None else max(0.0, age - 1) * self._frame_ms

    def figures(self) -> dict[str, float | None]:
        mean = self._seconds / self._inferences if self._inferences else None
        longest = self._longest if self._inferences else None
        return super().figures() | {
            "missed_share": self._missed / self.frames if self.frames else None,
            "inference_ms_mean": None if mean is None else 1000 * mean,
            "inference_ms_max": None if longest is None else 1000 * longest,
            "needed_processes_mean": None if mean is None else needed_processes(mean, self._interval),
            "needed_processes_max": None if longest is None else needed_processes(longest, self._interval),
            "lost_decisions": self._lost,
            "dropped_unrolls": self._dropped,
        }


def make_timing(config: Config, layout: UnrollLayout, inference_processes: int) -> ActionTiming | None:
    """The counters of a run whose games do not wait; None for one that plays in turns."""
    if not layout.delayed_actions:
        return None
    skipped_frames = config.environment.skipped_frames
    if layout.real_time:
        return ClockTiming(layout, skipped_frames, config.realtime.fps, inference_processes)
    return ActionTiming(layout, skipped_frames)
