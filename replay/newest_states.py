"""Where the agents are now: the last state of each environment's newest unroll."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.trajectory import Rows, UnrollSpec


class NewestStates:
    def __init__(self, spec: UnrollSpec) -> None:
        self._spec = spec
        self._stacks: dict[int, Rows] = {}  # environment → [S, C, H, W]

    def note(self, row: Rows) -> None:
        """Look at an unroll that has just arrived, `[nbytes]`."""
        steps, stack = self._spec.unroll_length, self._spec.frame_stack
        starts = np.flatnonzero(self._spec.array(row, "dones")) + 1
        episode_start = int(starts[-1]) if len(starts) else -stack
        shown = np.maximum(np.arange(steps - stack + 1, steps + 1), episode_start) + stack - 1
        self._stacks[int(self._spec.array(row, "environment_id"))] = self._spec.array(row, "frames")[shown]

    def stacks(self) -> NDArray[np.uint8]:
        """All of them: `[E, S*C, H, W]`."""
        stacks = np.stack(list(self._stacks.values()))
        return stacks.reshape(len(stacks), -1, *self._spec.frame_shape[1:])

    def state_dict(self) -> dict[str, Any]:
        stacks = np.stack(list(self._stacks.values())) if self._stacks else np.zeros((0, 1), dtype=np.uint8)
        return {"environments": list(self._stacks), "stacks": torch.from_numpy(stacks)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._stacks = dict(zip(state["environments"], state["stacks"].numpy().copy(), strict=True))
