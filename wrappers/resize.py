"""Scales screens to the size of the observations."""

from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.area_mean import SCREEN, SMALL, AreaMean
from wrappers.emulator import AtariWrapper, Frame


class Resize(AtariWrapper):
    """Scale [height, width] or [height, width, 3] to `resolution`. Each new pixel is the mean of the area it covers.

    The next step overwrites the observation.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], resolution: tuple[int, int]) -> None:
        super().__init__(env)
        # The worker processes run in parallel; threads of OpenCV would take cores from them.
        cv2.setNumThreads(1)
        shape = env.observation_space.shape
        if shape is None:
            raise TypeError("Resize needs an environment whose observations have one fixed shape.")
        self._width_height = (resolution[1], resolution[0])
        self._area_mean = AreaMean() if (shape, resolution) == (SCREEN, SMALL) else None
        self._resized = np.empty((*resolution, *shape[2:]), np.uint8)
        self.observation_space = Box(0, 255, self._resized.shape, np.uint8)

    def _resize(self, screen: Frame) -> Frame:
        if self._area_mean is None:
            cv2.resize(screen, self._width_height, self._resized, interpolation=cv2.INTER_AREA)
        else:
            self._area_mean.shrink(screen, self._resized)
        return self._resized

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        screen, info = self.env.reset(seed=seed, options=options)
        return self._resize(screen), info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        screen, reward, terminated, truncated, info = self.env.step(action)
        return self._resize(screen), float(reward), terminated, truncated, info
