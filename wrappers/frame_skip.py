"""Agent steps of several raw frames."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.emulator import AtariWrapper, Frame


class FrameSkip(AtariWrapper):
    """Repeat each action for `skip` raw frames, or until the game ends, and sum the rewards.

    The observation is the maximum of the last two screens, because some games draw a sprite only in every other
    frame. Which frame is the last but one is known for a whole step and for one that the time limit cuts short,
    so no other screen is fetched. Where the game itself ends sooner, the observation is the last screen alone:
    nobody acts on it or bootstraps from it. With a skip of 1, and at a reset, it is the plain screen.

    Observations have the shape of a screen, [height, width] or [height, width, 3], and last until the next step.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], skip: int) -> None:
        super().__init__(env)
        self._skip = skip
        self._screen: Callable[[Frame], None] = env.get_wrapper_attr("screen")
        self._frames_left: Callable[[], int] = env.get_wrapper_attr("frames_left")
        shape: tuple[int, ...] = env.get_wrapper_attr("screen_shape")
        self.observation_space = Box(0, 255, shape, np.uint8)
        self._earlier = np.empty(shape, np.uint8)
        self._latest = np.empty(shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        self._screen(self._latest)
        return self._latest, info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        last = min(self._skip, self._frames_left())
        total = 0.0
        for frame in range(1, self._skip + 1):
            _, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
            if frame == last - 1:
                self._screen(self._earlier)
        self._screen(self._latest)
        if frame == last > 1:
            np.maximum(self._latest, self._earlier, out=self._latest)
        return self._latest, total, terminated, truncated, info
