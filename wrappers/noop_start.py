"""Random starts: a random number of no-op frames at the start of each game."""

from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame


class NoopStart(AtariWrapper):
    """Play 1 to `most` no-op raw frames, a uniformly random number, at the start of each game.

    If the game ends during these frames, it is reset once more, without no-op frames.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], most: int) -> None:
        super().__init__(env)
        self._most = most

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.np_random.integers(1, self._most, endpoint=True))):
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:
                return self.env.reset(options=options)
        return observation, info
