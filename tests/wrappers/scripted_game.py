"""A game that plays a script from the test, frame by frame."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from option_flags import EnvironmentOptions
from wrappers.atari import AtariGame, ScoreKeeper
from wrappers.emulator import Frame


class Moment(NamedTuple):
    """The result of one step."""

    lives: int = 3
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class ScriptedGame(gymnasium.Env[Frame, int]):
    """Play the games in order, then repeat the last one. `log` holds the resets and actions.

    Its screen is one pixel, [1, 1]: the number of entries in the log.
    """

    action_meanings = ("NOOP", "FIRE", "RIGHT")
    has_fire = True
    screen_shape = (1, 1)

    def __init__(self, *games: list[Moment], lives: int = 3) -> None:
        self.observation_space = Box(0, 255, (1, 1), np.uint8)
        self.games = games
        self.first_lives = lives
        self.game = -1
        self.log: list[str | int] = []

    def lives(self) -> int:
        return self.games[self.game][self.moment - 1].lives if self.moment else self.first_lives

    def frames_left(self) -> int:
        return 10**9

    def screen(self, out: Frame) -> None:
        out[:] = len(self.log) % 256

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        self.game = min(self.game + 1, len(self.games) - 1)
        self.moment = 0
        self.log.append("reset")
        return np.empty(0, np.uint8), {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        moment = self.games[self.game][self.moment]
        self.moment += 1
        self.log.append(action)
        return np.empty(0, np.uint8), moment.reward, moment.terminated, moment.truncated, {}


def as_agent_sees(game: ScriptedGame, **options: Any) -> AtariGame:
    """The game with a frame in each agent step. Without options, nothing is added to it."""
    plain: dict[str, Any] = {"episodic_life": False, "fire_on_reset": False, "reward_clipping_method": "none"}
    plain |= {"skipped_frames": 1, "frame_scale_resolution": "1,1", **options}
    return AtariGame(ScoreKeeper(game), EnvironmentOptions(**plain))
