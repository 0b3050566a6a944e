"""Unrolls whose last actions have not taken effect yet (--interaction=asynchronous or sequential).

The reward of an agent step is known when the action of the next step takes effect, which may be several steps later. So
an unroll stays open for some rounds after its steps were played.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from wrappers.atari import reward_clipping


def rounds_behind(options: EnvironmentOptions, unroll_length: int) -> int:
    """How many further unrolls are begun before all actions of one have taken effect."""
    return -(-options.steps_until_effect // unroll_length)


class OpenUnrolls:
    """The open unrolls of E environments, oldest first. Agent steps are counted from the start of the process.

    A step has no effect, and stays invalid, if its episode ended before its action took effect.
    """

    def __init__(
        self, layout: UnrollLayout, options: EnvironmentOptions, environments: Sequence[gymnasium.Env[Any, Any]]
    ) -> None:
        self._layout = layout
        self._clip = reward_clipping(options.reward_clipping_method)
        self._hold = options.skipped_frames
        self._duration = options.frames_per_step / options.skipped_frames
        self._age = options.action_delay
        self._rounds_behind = rounds_behind(options, layout.unroll_length)
        self._decision_count = [env.get_wrapper_attr("decision_count") for env in environments]
        self._take_effects = [env.get_wrapper_attr("take_effects") for env in environments]
        self._take_frames = [env.get_wrapper_attr("take_frames") for env in environments]
        self._rows: deque[Rows] = deque()
        self._fields: deque[dict[str, NDArray[Any]]] = deque()  # views of the rows
        self._first_step = 0  # of the oldest open unroll
        self._steps: list[dict[int, int]] = [{} for _ in environments]  # decision → agent step, while it waits
        self._rewards: list[dict[int, float]] = [{} for _ in environments]  # agent step → unclipped reward so far
        self._first_decision = [0] * len(environments)  # of the current agent step

    def play(self, rows: Rows, play: Callable[[dict[str, NDArray[Any]]], None]) -> None:
        """Play a round with `play`, or several at the start; write the oldest open unrolls to `rows [E, nbytes]`."""
        while len(self._rows) <= self._rounds_behind:
            self._open(np.zeros_like(rows))
            play(self._fields[-1])
        rows[:] = self._rows.popleft()
        self._fields.popleft()
        self._first_step += self._layout.unroll_length

    def before_step(self, e: int) -> None:
        """Called before each agent step of environment e."""
        self._first_decision[e] = self._decision_count[e]()

    def after_step(self, e: int, t: int, seen_reward: float, final_value: Callable[[], float]) -> None:
        """Called after step t of the newest unroll and before a reset. `seen_reward` is the reward during the step.

        `final_value` estimates the value of the observation after the step.
        """
        unroll = self._fields[-1]
        unroll["seen_rewards"][e, t] = seen_reward
        frames, idle = self._take_frames[e]()
        unroll["played_frames"][e] += frames
        unroll["idle_frames"][e] += idle
        step = self._first_step + (len(self._rows) - 1) * self._layout.unroll_length + t
        # A wrapper may have pressed FIRE after a lost life. Its decisions belong to the agent's step.
        for decision in range(self._first_decision[e], self._decision_count[e]()):
            self._steps[e][decision] = step
        self.write_effects(e, final_value)

    def write_effects(self, e: int, final_value: Callable[[], float]) -> None:
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
                unroll["bootstraps"][e, t] = self._value_after(e, step, final_value)

    def _value_after(self, e: int, step: int, final_value: Callable[[], float]) -> float:
        """The value of the state after a step that the time limit cut: of the next decision, if there was one."""
        made = max(self._steps[e].values(), default=step)
        if made == step:
            return final_value()
        unroll, t = self._at(step + 1)
        return float(unroll["values"][e, t])

    def _at(self, step: int) -> tuple[dict[str, NDArray[Any]], int]:
        index, t = divmod(step - self._first_step, self._layout.unroll_length)
        return self._fields[index], t

    def _open(self, rows: Rows) -> None:
        self._rows.append(rows)
        self._fields.append(self._layout.arrays(rows))

    def snapshot(self) -> dict[str, Any]:
        """Taken between two rounds."""
        return {
            "unrolls": [rows.tobytes() for rows in self._rows],
            "first_step": self._first_step,
            "steps": [
                [(decision, step) for decision, step in steps.items() if step >= self._first_step]
                for steps in self._steps  # earlier ones will have no effect any more
            ],
            "rewards": [
                [(step, reward) for step, reward in rewards.items() if step >= self._first_step]
                for rewards in self._rewards
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._rows.clear()
        self._fields.clear()
        for content in state["unrolls"]:
            self._open(np.frombuffer(content, np.uint8).reshape(len(self._steps), -1).copy())
        self._first_step = state["first_step"]
        self._steps = [dict(steps) for steps in state["steps"]]
        self._rewards = [dict(rewards) for rewards in state["rewards"]]
