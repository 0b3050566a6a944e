"""Where the agents are now: the last state of each environment's newest unroll.

An environment of which nothing has come for many rounds is no more: its worker is being replaced, or the run went on
with fewer of them.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.unroll_layout import Rows, UnrollLayout

ROUNDS_REMEMBERED = 10


class NewestStates:
    def __init__(self, layout: UnrollLayout) -> None:
        self._layout = layout
        self._stacks: dict[int, Rows] = {}  # environment → [S, C, H, W]
        self._noted: dict[int, int] = {}  # environment → how many unrolls had been noted then
        self._count = 0

    def note(self, row: Rows) -> None:
        """Look at an unroll that has just arrived, `[nbytes]`."""
        steps, stack = self._layout.unroll_length, self._layout.frame_stack
        starts = np.flatnonzero(self._layout.array(row, "dones")) + 1
        episode_start = int(starts[-1]) if len(starts) else -stack
        shown = np.maximum(np.arange(steps - stack + 1, steps + 1), episode_start) + stack - 1
        environment = int(self._layout.array(row, "environment_id"))
        self._stacks[environment] = self._layout.array(row, "frames")[shown]
        self._count += 1
        self._noted[environment] = self._count
        if self._count % len(self._stacks) == 0:
            self._forget(self._count - ROUNDS_REMEMBERED * len(self._stacks))

    def stacks(self) -> NDArray[np.uint8]:
        """All of them: `[E, S*C, H, W]`."""
        stacks = np.stack(list(self._stacks.values()))
        return stacks.reshape(len(stacks), -1, *self._layout.frame_shape[1:])

    def _forget(self, before: int) -> None:
        """Those of which nothing has come since so many unrolls had."""
        for environment in [environment for environment, noted in self._noted.items() if noted < before]:
            del self._stacks[environment], self._noted[environment]

    def state_dict(self) -> dict[str, Any]:
        stacks = np.stack(list(self._stacks.values())) if self._stacks else np.zeros((0, 1), dtype=np.uint8)
        return {
            "environments": list(self._stacks),
            "stacks": torch.from_numpy(stacks),
            "noted": [self._noted[environment] for environment in self._stacks],
            "count": self._count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        environments = state["environments"]
        self._stacks = dict(zip(environments, state["stacks"].numpy().copy(), strict=True))
        self._count = state.get("count", 0)  # not in replays from before environments were forgotten
        self._noted = dict(zip(environments, state.get("noted", [0] * len(environments)), strict=True))
