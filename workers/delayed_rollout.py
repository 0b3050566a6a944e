"""A rollout in games that do not wait (--interaction=asynchronous or sequential).

The reward of an agent step is known when the action of the next step takes effect, which may be several steps later. So
an unroll stays open for some rounds after its steps were played.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.policies import ActingPolicy
from workers.rollout import Rollout, SeededEnvironment
from workers.shared_array import WorkerClock
from wrappers.atari import reward_clipping


def rounds_behind(options: EnvironmentOptions, unroll_length: int) -> int:
    """How many further unrolls are begun before all actions of one have taken effect."""
    return -(-options.steps_until_effect // unroll_length)


class DelayedRollout(Rollout):
    """Keeps open unrolls, oldest first. Agent steps are counted from the start of the process.

    A step has no effect, and stays invalid, if its episode ended before its action took effect.
    """

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
        self._clip = reward_clipping(options.reward_clipping_method)
        self._hold = options.skipped_frames
        self._duration = options.frames_per_step / options.skipped_frames
        self._age = options.action_delay
        self._rounds_behind = rounds_behind(options, layout.unroll_length)
        self._decision_count = [each.env.get_wrapper_attr("decision_count") for each in environments]
        self._take_effects = [each.env.get_wrapper_attr("take_effects") for each in environments]
        self._take_frames = [each.env.get_wrapper_attr("take_frames") for each in environments]
        self._rows: deque[Rows] = deque()
        self._fields: deque[dict[str, NDArray[Any]]] = deque()  # views of the rows
        self._first_step = 0  # of the oldest open unroll
        self._steps: list[dict[int, int]] = [{} for _ in environments]  # decision → agent step, while it waits
        self._rewards: list[dict[int, float]] = [{} for _ in environments]  # agent step → unclipped reward so far
        self._first_decision = 0  # of the current agent step

    @torch.inference_mode()
    def collect(self, rows: Rows) -> None:
        """Play a round, or several at the start; write the oldest open unrolls to `rows [E, nbytes]`."""
        while len(self._rows) <= self._rounds_behind:
            self._open(np.zeros_like(rows))
            self._play(self._fields[-1])
        rows[:] = self._rows.popleft()
        self._fields.popleft()
        self._first_step += self._layout.unroll_length

    def _step(self, e: int, action: Any, unrolls: dict[str, NDArray[Any]], t: int) -> None:
        self._first_decision = self._decision_count[e]()
        super()._step(e, action, unrolls, t)

    def _note_outcome(self, unrolls: dict[str, NDArray[Any]], e: int, t: int, reward: float, is_cut: bool) -> None:
        unrolls["seen_rewards"][e, t] = reward
        frames, idle = self._take_frames[e]()
        unrolls["played_frames"][e] += frames
        unrolls["idle_frames"][e] += idle
        step = self._first_step + (len(self._rows) - 1) * self._layout.unroll_length + t
        # A wrapper may have pressed FIRE after a lost life. Its decisions belong to the agent's step.
        for decision in range(self._first_decision, self._decision_count[e]()):
            self._steps[e][decision] = step
        self._write_effects(e)

    def _write_effects(self, e: int) -> None:
        """Write the effects that became complete in environment e to the steps that they belong to."""
        steps, rewards = self._steps[e], self._rewards[e]
        for effect in self._take_effects[e]():
            step = steps.get(effect.decision)
            for decision in [decision for decision in steps if decision <= effect.decision]:
                del steps[decision]  # decisions before it had no effect
            if step is None:
                continue  # made by a wrapper during a reset
            for earlier in [earlier for earlier in rewards if earlier < step]:
                del rewards[earlier]
            rewards[step] = rewards.get(step, 0.0) + effect.reward
            unroll, t = self._at(step)
            unroll["rewards"][e, t] = self._clip(rewards[step])
            unroll["durations"][e, t] = self._duration
            unroll["ages"][e, t] = self._age
            unroll["valid"][e, t] = 1
            unroll["ended"][e, t] = effect.ended or effect.cut
            if effect.cut:
                if self._duration > 1:  # otherwise the step counts as a whole one, as with `turns`
                    unroll["durations"][e, t] = effect.frames / self._hold
                unroll["bootstraps"][e, t] = self._value_after(e, step)

    def _value_after(self, e: int, step: int) -> float:
        """The value of the state after a step that the time limit cut: of the next decision, if there was one."""
        if max(self._steps[e].values(), default=step) == step:
            return self._policy.value_of(e)
        unroll, t = self._at(step + 1)
        return float(unroll["values"][e, t])

    def _at(self, step: int) -> tuple[dict[str, NDArray[Any]], int]:
        index, t = divmod(step - self._first_step, self._layout.unroll_length)
        return self._fields[index], t

    def _open(self, rows: Rows) -> None:
        self._rows.append(rows)
        self._fields.append(self._layout.arrays(rows))

    def snapshot(self) -> dict[str, Any]:
        """Taken between two rounds. Decisions and rewards of earlier unrolls will have no effect any more."""
        first = self._first_step
        return {
            **super().snapshot(),
            "unrolls": [rows.tobytes() for rows in self._rows],
            "first_step": first,
            "steps": [[list(pair) for pair in steps.items() if pair[1] >= first] for steps in self._steps],
            "rewards": [[list(pair) for pair in rewards.items() if pair[0] >= first] for rewards in self._rewards],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self._rows.clear()
        self._fields.clear()
        for content in snapshot["unrolls"]:
            self._open(np.frombuffer(content, np.uint8).reshape(len(self._steps), -1).copy())
        self._first_step = snapshot["first_step"]
        self._steps = [dict(steps) for steps in snapshot["steps"]]
        self._rewards = [dict(rewards) for rewards in snapshot["rewards"]]
