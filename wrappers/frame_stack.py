"""Frame stacking: the last few frames are one observation."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.emulator import AtariWrapper, Frame, Start, Step


class FrameStack(AtariWrapper):
    """Observations [frames, channels, height, width], the newest frame last. A reset repeats the first frame.

    The frames of the wrapped environment are [height, width] or [height, width, 3]. Each observation is a new array.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], frames: int) -> None:
        super().__init__(env)
        shape = env.observation_space.shape
        assert shape is not None
        channels = shape[2] if len(shape) == 3 else 1
        self._frames: Frame = np.zeros((frames, channels, *shape[:2]), np.uint8)
        self.observation_space = Box(0, 255, self._frames.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        frame, info = self.env.reset(seed=seed, options=options)
        self._frames[:] = channels_first(frame)
        return self._frames.copy(), info

    def step(self, action: int) -> Step:
        frame, reward, terminated, truncated, info = self.env.step(action)
        self._frames[:-1] = self._frames[1:]
        self._frames[-1] = channels_first(frame)
        return self._frames.copy(), float(reward), terminated, truncated, info

    def own_state(self) -> dict[str, Any]:
        return {"frames": self._frames.tobytes()}  # the emulator cannot restore its screen

    def set_own_state(self, state: dict[str, Any]) -> None:
        self._frames[:] = np.frombuffer(state["frames"], np.uint8).reshape(self._frames.shape)


def channels_first(frame: Frame) -> Frame:
    """A view [channels, height, width] of [height, width] or [height, width, channels]."""
    return frame[None] if frame.ndim == 2 else frame.transpose(2, 0, 1)
