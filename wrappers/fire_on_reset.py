"""Press FIRE where a game waits for it."""

from typing import Any

from wrappers.emulator import AtariWrapper, Frame

FIRE = 1  # the place of FIRE in the action set of the games that this is for
_TRIES = 3


class FireOnReset(AtariWrapper):
    """One agent step of FIRE at each start of a game or of a life.

    A start that does not outlive it is reset and tried again, a few times at most so that a reset always comes to
    an end; after that the game is left as the reset made it, and FIRE to the agent.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        for _ in range(_TRIES):
            observation, _, terminated, truncated, info = self.env.step(FIRE)
            if not (terminated or truncated):
                break
            observation, info = self.env.reset(options=options)
        return observation, info
