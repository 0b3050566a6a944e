"""An environment with action masks, nine tenths of whose actions raise an exception: `tests.permitted:Permitted-v0`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

CHOICES = 20
PERMITTED = "tests.permitted:Permitted-v0"


class Permitted(gymnasium.Env[Any, Any]):
    """Two of 20 choices are possible in each step, in each factor; the better one is rewarded with 1.

    `source` is where the mask is: in `info`, or what a method returns. The last `info` says how a game ended.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, factors: int = 0, source: str = "info", render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._shape = (max(1, factors), CHOICES)
        self.observation_space = spaces.Box(0, 1, self._shape, np.float32)
        self.action_space = spaces.MultiDiscrete([CHOICES] * factors) if factors else spaces.Discrete(CHOICES)
        if source == "method":
            self.action_masks = lambda: self._mask.reshape(-1)
        self._source, self._steps, self._coins = source, 0, 0.0

    def _draw(self) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self._worth = self.np_random.random(self._shape, np.float32)
        possible = np.argsort(self.np_random.random(self._shape), axis=1)[:, :2]
        self._mask = np.zeros(self._shape, np.int8)
        self._mask[np.arange(len(possible))[:, None], possible] = 1
        over = self._steps == 10
        mask = self._mask.reshape(-1) * (not over)  # nothing is possible any more
        return self._worth, {"action_mask": mask} if self._source == "info" else {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps, self._coins = 0, 0.0
        return self._draw()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen = np.arange(len(self._mask)), np.atleast_1d(action)
        if not self._mask[chosen].all():
            raise ValueError(f"{action} is not possible")
        better = (self._worth * self._mask).max(1)
        reward = float((self._worth[chosen] == better).mean())
        self._steps += 1
        self._coins += reward
        observation, info = self._draw()
        if self._steps == 10:
            info |= {"success": self._coins > 5, "stats": {"coins": self._coins}, "episode": {"r": 0.0, "last": reward}}
        return observation, reward, self._steps == 10, False, info

    def render(self) -> NDArray[np.uint8]:
        return np.full((32, 32, 3), 8 * self._steps, np.uint8)


gymnasium.register("Permitted-v0", "tests.permitted:Permitted")
