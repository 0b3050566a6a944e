"""Sticky actions: sometimes the previous action is repeated."""

from typing import Any

import gymnasium

from wrappers.emulator import NOOP, AtariWrapper, Frame


class StickyActions(AtariWrapper):
    """In each raw frame, repeat the previous frame's action with this probability. Before the first frame it is NOOP.

    ALE has this too, but its saved states do not contain the previous action, so a restored game would differ.
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
        if not self.action_space.contains(state["action"]):
            raise ValueError(f"the saved action {state['action']} does not exist")
        self._action = state["action"]
        self.env.get_wrapper_attr("restore")(state["inner"])
