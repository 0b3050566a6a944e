"""One episode per life."""

from collections.abc import Callable
from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame


class EpisodicLife(AtariWrapper):
    """End the learner's episode when a life is lost. The next reset continues the game with one no-op agent step.

    A life counter that falls to 0 does not end the episode: in some games the last life is still being played, and in
    others the game ends some frames later, so that ending the episode here would split it into two.
    A life that is lost in the step of the time limit ends the episode as any other: the state after it has no value.
    """

    def __init__(self, env: gymnasium.Env[Frame, int]) -> None:
        super().__init__(env)
        self._count_lives: Callable[[], int] = env.get_wrapper_attr("lives")
        self._lives = 0
        self._life_lost = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Continue the game if a life was just lost. Otherwise, and always with a seed, start a new game."""
        if self._life_lost and seed is None:
            observation, _, terminated, truncated, info = self.env.step(NOOP)
            if terminated or truncated:
                observation, info = self.env.reset(options=options)
        else:
            observation, info = self.env.reset(seed=seed, options=options)
        self._life_lost = False
        self._lives = self._count_lives()
        return observation, info

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        lives = self._count_lives()
        life_lost = 0 < lives < self._lives
        self._life_lost = life_lost and not (terminated or truncated)  # otherwise the next reset starts a new game
        self._lives = lives
        return observation, float(reward), terminated or life_lost, truncated, info

    def snapshot(self) -> dict[str, Any]:
        return {
            "lives": self._lives,
            "life_lost": self._life_lost,
            "inner": self.env.get_wrapper_attr("snapshot")(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._lives, self._life_lost = state["lives"], state["life_lost"]
        self.env.get_wrapper_attr("restore")(state["inner"])
