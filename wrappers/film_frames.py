"""Passes every raw frame of a game to a function, for films and windows."""

from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from wrappers.emulator import AtariWrapper, Frame

Watch: TypeAlias = Callable[[NDArray[np.uint8], float], None]  # colour picture [height, width, 3], score so far


class FilmFrames(AtariWrapper):
    """Call `watch` with every raw frame and the score so far, including the first frame of a game.

    It wraps the emulator directly, so it receives every frame that frame skipping drops, and unclipped rewards.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], watch: Watch) -> None:
        super().__init__(env)
        self._watch = watch
        self._score = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._score = 0.0
        self._show()
        return observation, info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._score += float(reward)
        self._show()
        return observation, float(reward), terminated, truncated, info

    def _show(self) -> None:
        picture = self.env.render()
        assert isinstance(picture, np.ndarray)
        self._watch(picture, self._score)
