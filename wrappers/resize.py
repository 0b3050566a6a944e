"""Scales screens to the size of the observations."""

from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.ale_downscale import SCREEN, SMALL, AleDownscale
from wrappers.emulator import AtariWrapper, Frame


class Scaler:
    """Scales screens of one shape, [height, width] or [height, width, 3], to `resolution`.

    Each new pixel is the mean of the area that it covers.
    """

    def __init__(self, shape: tuple[int, ...], resolution: tuple[int, int]) -> None:
        # The worker processes run in parallel; threads of OpenCV would take cores from them.
        cv2.setNumThreads(1)
        self._width_height = (resolution[1], resolution[0])
        self._area_mean = AleDownscale() if (shape, resolution) == (SCREEN, SMALL) else None
        self._scaled = np.empty((*resolution, *shape[2:]), np.uint8)

    def __call__(self, screen: Frame) -> Frame:
        """The scaled screen. The next call overwrites it."""
        if self._area_mean is None:
            cv2.resize(screen, self._width_height, self._scaled, interpolation=cv2.INTER_AREA)
        else:
            self._area_mean.shrink(screen, self._scaled)
        return self._scaled


class Resize(AtariWrapper):
    """Scale the observations of an environment to `resolution`. The next step overwrites the observation."""

    def __init__(self, env: gymnasium.Env[Frame, int], resolution: tuple[int, int]) -> None:
        super().__init__(env)
        shape = env.observation_space.shape
        if shape is None:
            raise TypeError("Resize needs an environment whose observations have one fixed shape.")
        self._scale = Scaler(shape, resolution)
        self.observation_space = Box(0, 255, (*resolution, *shape[2:]), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        screen, info = self.env.reset(seed=seed, options=options)
        return self._scale(screen), info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        screen, reward, terminated, truncated, info = self.env.step(action)
        return self._scale(screen), float(reward), terminated, truncated, info
