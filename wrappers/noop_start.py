"""Random starts: a random number of no-op frames at the start of each game."""

from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame


class NoopStart(AtariWrapper):
    """Play a random number of no-op raw frames, 1 to `max_noops`, at the start of each game.

    If the game ends during these frames, it is reset once more, without no-op frames.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], max_noops: int) -> None:
        super().__init__(env)
        self._max_noops = max_noops

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.np_random.integers(1, self._max_noops, endpoint=True))):
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:
                return self.env.reset(options=options)
        return observation, info
