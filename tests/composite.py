"""An environment with composite actions: `tests.composite:Composite-v0`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

COMPOSITE = "tests.composite:Composite-v0"


class Composite(gymnasium.Env[Any, Any]):
    """Each part of an action is rewarded for being what the observation says; an action of another form raises."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        arm = spaces.Dict({"speed": spaces.Box(-2, 2, (1,), np.float32), "grip": spaces.MultiBinary(2)})
        self.action_space = spaces.Dict({"move": spaces.Discrete(3, start=1), "arm": spaces.Tuple((arm,))})
        self._steps = 0

    def _draw(self) -> NDArray[np.float32]:
        self._seen = self.np_random.random(3, np.float32)
        return self._seen

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        (arm,) = action["arm"]
        reward = float(action["move"] == 1 + int(3 * self._seen[0] * 0.999))
        reward += float((arm["grip"] == (self._seen[1:] > 0.5)).mean())
        reward += 1 - min(1.0, abs(float(arm["speed"][0]) - float(self._seen[1])))
        self._steps += 1
        return self._draw(), reward / 3, self._steps == 10, False, {}

    def render(self) -> NDArray[np.uint8]:
        return np.full((32, 32, 3), 8 * self._steps, np.uint8)


gymnasium.register("Composite-v0", "tests.composite:Composite")
