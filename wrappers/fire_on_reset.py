"""Press FIRE at the start of every episode."""

from typing import Any

from wrappers.emulator import AtariWrapper, Frame

FIRE = 1  # index of FIRE in the action sets of the games that this wrapper is for
_MAX_TRIES = 3


class FireOnReset(AtariWrapper):
    """After each reset, make one agent step with FIRE.

    For all games whose action 1 is FIRE, whether they wait for it (Breakout) or not (SpaceInvaders). If the episode
    ends at this step, reset and try again, at most three times. After that, the environment stays as the last reset
    left it.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(_MAX_TRIES):
            observation, _, terminated, truncated, info = self.env.step(FIRE)
            if not (terminated or truncated):
                break
            observation, info = self.env.reset(options=options)
        return observation, info
