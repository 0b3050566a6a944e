"""A raw game for tests: each screen is a number, and episodes end by a script."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from option_flags import EnvironmentOptions
from wrappers.atari import RealtimeGame, ScoreKeeper
from wrappers.emulator import Frame

OPTIONS = EnvironmentOptions(frame_scale_resolution="4,4", frames_stacked=3, noop_threshold=0)


class Ending(NamedTuple):
    """How a game ends, and after how many frames."""

    frames: int
    cut: bool = False


class NumberedFrames(gymnasium.Env[Frame, int]):
    """The screen shows the number of frames so far, in all games. `actions` are those that were played.

    The reward of frame k is k / 100. The games end as in `endings`, again and again.
    """

    action_meanings = ("NOOP", "UP", "DOWN")
    has_fire = False
    screen_shape = (4, 4)

    def __init__(self, *endings: Ending) -> None:
        self.observation_space = Box(0, 255, (0,), np.uint8)
        self.action_space = Discrete(3)  # type: ignore[assignment]
        self.endings = endings
        self.games = -1
        self.frames = 0
        self.actions: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        self.games += 1
        self.frames_of_game = 0
        return np.empty(0, np.uint8), {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        self.frames += 1
        self.frames_of_game += 1
        self.actions.append(action)
        ending = self.endings[self.games % len(self.endings)]
        over = self.frames_of_game == ending.frames
        return np.empty(0, np.uint8), self.frames / 100, over and not ending.cut, over and ending.cut, {}

    def screen(self, out: Frame) -> None:
        out[:2], out[2:] = self.frames % 256, self.frames // 256

    def lives(self) -> int:
        return 0


def make_numbered(*endings: Ending, options: EnvironmentOptions = OPTIONS) -> RealtimeGame:
    return RealtimeGame(ScoreKeeper(NumberedFrames(*endings), options.skipped_frames), options)


def emulator_of(env: gymnasium.Env[Any, Any]) -> NumberedFrames:
    inner = env.unwrapped
    assert isinstance(inner, NumberedFrames)
    return inner


Times = Callable[[int], float]  # the duration of the next inference of a process
