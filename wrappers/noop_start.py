"""A random start: some frames of doing nothing at the beginning of a game."""

from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame


class NoopStart(AtariWrapper):
    """Let 1 to `most` raw frames pass, uniformly drawn, at the start of each game.

    A game that ends meanwhile is reset once more and then left as it is, so a reset always comes to an end.
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
