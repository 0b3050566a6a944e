"""Press FIRE after each lost life, for environments in which a lost life does not end the episode."""

from collections.abc import Callable
from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame
from wrappers.fire_on_reset import FIRE


class FireOnLifeLoss(AtariWrapper):
    """Extend the step that loses a life by one no-op agent step and one agent step with FIRE.

    For all games whose action 1 is FIRE. `EpisodicLife` and `FireOnReset` make the same two steps in training, so the
    policy has not learned to make them itself. As in `EpisodicLife`, a life counter that falls to 0 does not count.
    """

    def __init__(self, env: gymnasium.Env[Frame, int]) -> None:
        super().__init__(env)
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives = self._count_lives()
        return observation, info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        total = float(reward)
        if 0 < self._count_lives() < self._lives:
            for press in (NOOP, FIRE):
                if terminated or truncated:
                    break
                observation, reward, terminated, truncated, info = self.env.step(press)
                total += float(reward)
        self._lives = self._count_lives()
        return observation, total, terminated, truncated, info

    def snapshot(self) -> dict[str, Any]:
        return {"lives": self._lives, "inner": self.env.get_wrapper_attr("snapshot")()}

    def restore(self, state: dict[str, Any]) -> None:
        self._lives = state["lives"]
        self.env.get_wrapper_attr("restore")(state["inner"])
