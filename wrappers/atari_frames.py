"""The inner steps of Atari's preprocessing: from the raw frames of the emulator to one scaled frame for each action."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.emulator import NOOP, AtariWrapper, Frame, Start, Step
from wrappers.scaling import Scaler


class StickyActions(AtariWrapper):
    """In each raw frame, repeat the previous frame's action with this probability. Before the first frame it is NOOP.

    ALE has this too, but its saved states do not contain the previous action, so a restored game would differ.
    """

    SAVED = ("action",)

    def __init__(self, env: gymnasium.Env[Frame, int], probability: float) -> None:
        super().__init__(env)
        self._probability = probability
        self._action = NOOP

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self._action = NOOP
        return self.env.reset(seed=seed, options=options)

    def step(self, action: int) -> Step:
        if self.np_random.random() >= self._probability:
            self._action = action
        observation, reward, terminated, truncated, info = self.env.step(self._action)
        return observation, float(reward), terminated, truncated, info


class NoopStart(AtariWrapper):
    """Play a random number of no-op raw frames, 1 to `max_noops`, at the start of each game.

    If the game ends during these frames, it is reset once more, without no-op frames.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], max_noops: int) -> None:
        super().__init__(env)
        self._max_noops = max_noops

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.np_random.integers(1, self._max_noops, endpoint=True))):
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:
                return self.env.reset(options=options)
        return observation, info


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

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        _, info = self.env.reset(seed=seed, options=options)
        self._screen(self._last)
        return self._last, info

    def step(self, action: int) -> Step:
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


class Resize(AtariWrapper):
    """Scale the observations of an environment to `resolution`. The next step overwrites the observation."""

    def __init__(self, env: gymnasium.Env[Frame, int], resolution: tuple[int, int]) -> None:
        super().__init__(env)
        shape = env.observation_space.shape
        assert shape is not None
        self._scale = Scaler(shape, resolution)
        self.observation_space = Box(0, 255, (*resolution, *shape[2:]), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        screen, info = self.env.reset(seed=seed, options=options)
        return self._scale(screen), info

    def step(self, action: int) -> Step:
        screen, reward, terminated, truncated, info = self.env.step(action)
        return self._scale(screen), float(reward), terminated, truncated, info
