"""Frame skipping: one agent step is several raw frames."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.emulator import AtariWrapper, Frame


class FrameSkip(AtariWrapper):
    """Repeat each action for `skip` raw frames, or until the game ends, and sum the rewards.

    The observation is the maximum of the last two screens, because some games draw a sprite only in every other frame.
    Only these two screens are copied. That is possible because the number of frames in the step is known in advance,
    unless the game ends during the step. Then the observation is the last screen alone; it is not used to choose an
    action or to bootstrap. With a skip of 1, and after a reset, it is also the last screen alone.

    Observations have the shape of a screen, [height, width] or [height, width, 3]. The next step overwrites them.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], skip: int) -> None:
        super().__init__(env)
        self._skip = skip
        self._screen: Callable[[Frame], None] = env.get_wrapper_attr("screen")
        self._frames_left: Callable[[], int] = env.get_wrapper_attr("frames_left")
        shape: tuple[int, ...] = env.get_wrapper_attr("screen_shape")
        self.observation_space = Box(0, 255, shape, np.uint8)
        self._second_last = np.empty(shape, np.uint8)
        self._last = np.empty(shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        self._screen(self._last)
        return self._last, info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        last = min(self._skip, self._frames_left())
        total = 0.0
        for frame in range(1, self._skip + 1):
            _, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
            if frame == last - 1:
                self._screen(self._second_last)
        self._screen(self._last)
        if frame == last > 1:
            np.maximum(self._last, self._second_last, out=self._last)
        return self._last, total, terminated, truncated, info
