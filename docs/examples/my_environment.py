"""An environment of one's own: walk to the goal on a square field.

`--env=my_environment:Goal-v0` finds it in the current folder.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
PIXELS = 20  # of a place in a film


class Goal(gymnasium.Env[NDArray[np.float32], int]):
    """The agent sees where it and the goal are, and moves one place per step.

    The goal gives 1, and every other step costs 0.01.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, size: int = 5, render_mode: str | None = None) -> None:
        self.size = size
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, size - 1, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))  # type: ignore[assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)  # seeds self.np_random
        self.agent, self.goal = self.np_random.integers(self.size, size=(2, 2))
        return self._seen(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.agent = np.clip(self.agent + MOVES[action], 0, self.size - 1)
        reached = bool((self.agent == self.goal).all())
        return self._seen(), 1.0 if reached else -0.01, reached, False, {"success": reached}

    def render(self) -> NDArray[np.uint8]:
        picture = np.zeros((self.size, self.size, 3), np.uint8)
        picture[tuple(self.goal)] = 0, 200, 0
        picture[tuple(self.agent)] = 255, 255, 255
        return picture.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)

    def _seen(self) -> NDArray[np.float32]:
        return np.concatenate([self.agent, self.goal]).astype(np.float32)


# A game that has lasted 50 steps is cut off, which is not the same as its end: Gymnasium does this.
gymnasium.register("Goal-v0", entry_point=f"{__name__}:Goal", max_episode_steps=50)
