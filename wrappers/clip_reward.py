"""Reward clipping, so that rewards have a similar size in all games."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium

from wrappers.emulator import AtariWrapper, Frame


def abs_one_sign(reward: float) -> float:
    return float((reward > 0) - (reward < 0))


def abs_one_clamp(reward: float) -> float:
    return min(max(reward, -1.0), 1.0)


def soft_asymmetric(reward: float) -> float:
    """Negative rewards count less than positive ones. Large rewards are squashed."""
    squashed = 5.0 * math.tanh(reward / 5.0)
    return squashed if reward >= 0 else 0.3 * squashed


_METHODS = {clip.__name__: clip for clip in (abs_one_sign, abs_one_clamp, soft_asymmetric)}


def reward_clipping(method: str) -> Callable[[float], float]:
    """The function of a `--reward_clipping_method`."""
    return float if method == "none" else _METHODS[method]


class ClipReward(AtariWrapper):
    """Clip the reward of each step with the method of the given name."""

    def __init__(self, env: gymnasium.Env[Frame, int], method: str) -> None:
        super().__init__(env)
        self._clip = reward_clipping(method)

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self._clip(float(reward)), terminated, truncated, info
