"""A game that plays a script from the test."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from wrappers.emulator import Frame


class Moment(NamedTuple):
    """The result of one step."""

    lives: int = 3
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class ScriptedGame(gymnasium.Env[Frame, int]):
    """Play the games in order, then repeat the last one. `log` holds the resets and actions.

    An observation is one pixel, [1, 1]: the number of entries in the log.
    """

    def __init__(self, *games: list[Moment], lives: int = 3) -> None:
        self.observation_space = Box(0, 255, (1, 1), np.uint8)
        self.games = games
        self.first_lives = lives
        self.game = -1
        self.log: list[str | int] = []

    def lives(self) -> int:
        return self.games[self.game][self.moment - 1].lives if self.moment else self.first_lives

    def observation(self) -> Frame:
        return np.full((1, 1), len(self.log) % 256, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        self.game = min(self.game + 1, len(self.games) - 1)
        self.moment = 0
        self.log.append("reset")
        return self.observation(), {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        moment = self.games[self.game][self.moment]
        self.moment += 1
        self.log.append(action)
        return self.observation(), moment.reward, moment.terminated, moment.truncated, {}
