"""A rollout in games that do not wait, with a delay in frames (--interaction=asynchronous or sequential).

What an agent step led to is known when the action of the next step takes effect, which may be several steps later. So
an unroll stays open for some rounds after its steps were played.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from option_flags import EnvironmentOptions
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.open_unrolls import OpenUnrolls
from workers.policies import ActingPolicy
from workers.rollout import Rollout, SeededEnvironment, Unrolls
from workers.shared_array import WorkerClock
from wrappers.timeline import DelayedTimeline, Effect


class DelayedRollout(Rollout):
    """A decision is an agent step; they are counted from the start of the process."""

    def __init__(
        self,
        environments: Sequence[SeededEnvironment],
        policy: ActingPolicy,
        layout: UnrollLayout,
        options: EnvironmentOptions,
        clock: WorkerClock | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(environments, policy, layout, clock, alive)
        self._open = OpenUnrolls(layout, options, len(environments))
        self._timelines: list[DelayedTimeline] = [each.env.get_wrapper_attr("timeline") for each in environments]

    @torch.inference_mode()
    def collect(self, rows: Rows) -> None:
        """Play a round, or several at the start; write the oldest open unrolls to `rows [E, nbytes]`."""
        while (complete := self._open.take()) is None:
            self._play(self._open.begin())
        rows[:] = complete

    def _step(self, e: int, action: Any, unrolls: Unrolls, t: int) -> None:
        self._timelines[e].step = self._open.end - self._layout.unroll_length + t
        super()._step(e, action, unrolls, t)

    def _note_outcome(self, unrolls: Unrolls, e: int, t: int, reward: float, is_cut: bool) -> None:
        timeline = self._timelines[e]
        unrolls["seen_rewards"][e, t] = reward
        frames, idle = timeline.take_frames()
        unrolls["played_frames"][e] += frames
        unrolls["idle_frames"][e] += idle
        if unrolls["dones"][e, t]:
            timeline.end(is_cut)
        for effect in timeline.take_effects():
            self._open.note(e, effect, self._value_after(e, effect) if effect.cut else 0.0)
        timeline.step = None

    def _value_after(self, e: int, effect: Effect) -> float:
        """The value of the state after a decision that the time limit cut: of the next decision, if there was one."""
        assert effect.decision is not None
        if effect.decision == self._timelines[e].step:
            return self._policy.value_of(e)
        unroll, t = self._open.at(effect.decision + 1)
        return float(unroll["values"][e, t])

    def snapshot(self) -> dict[str, Any]:
        """Taken between two rounds."""
        return {**super().snapshot(), **self._open.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self._open.restore(snapshot)
        for e, seat in enumerate(snapshot["seats"]):
            if seat["game"] is None:
                self._open.forget(e)
