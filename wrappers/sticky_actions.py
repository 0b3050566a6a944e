"""Actions that sometimes stick."""

from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame


class StickyActions(AtariWrapper):
    """In each raw frame, repeat with this probability the action of the frame before instead; a game begins with NOOP.

    ALE could do this itself, but its saved states leave out the action that sticks, so games would not go on exactly.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], probability: float) -> None:
        super().__init__(env)
        self._probability = probability
        self._action = NOOP

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        self._action = NOOP
        return self.env.reset(seed=seed, options=options)

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        if self.np_random.random() >= self._probability:
            self._action = action
        observation, reward, terminated, truncated, info = self.env.step(self._action)
        return observation, float(reward), terminated, truncated, info

    def snapshot(self) -> dict[str, Any]:
        return {"action": int(self._action), "inner": self.env.get_wrapper_attr("snapshot")()}

    def restore(self, state: dict[str, Any]) -> None:
        self._action = state["action"]
        self.env.get_wrapper_attr("restore")(state["inner"])
