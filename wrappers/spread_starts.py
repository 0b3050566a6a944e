"""Cuts the first episode of an environment, so that not all environments start their episodes in the same steps."""

from typing import Any

import gymnasium
import numpy as np

from wrappers.environment_spec import environment_spec
from wrappers.observation import Observation


class SpreadStarts(gymnasium.Wrapper[Observation, Any, Observation, Any]):
    """Cut the first episode after a random number of steps, up to `time_limit`; the later ones stay whole.

    Where every episode lasts as long as the time limit, environments that start together stay together: all unrolls of
    a batch are from the same part of an episode, and what the policy does in the other parts is forgotten meanwhile.

    The cut is a truncation. It is no finished game, so the environment inside, which counts games, does not see it.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], time_limit: int, generator: np.random.Generator) -> None:
        super().__init__(env)
        self.spec_for_agent = environment_spec(env)
        self._steps_left = int(generator.integers(1, time_limit, endpoint=True))
        self._is_first = True

    def step(self, action: Any) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._is_first:
            self._steps_left -= 1
            truncated = truncated or self._steps_left == 0
            self._is_first = not (terminated or truncated)
        return observation, reward, terminated, truncated, info
