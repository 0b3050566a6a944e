"""The newest state of each environment: the last state of its newest unroll.

An environment is forgotten after `ROUNDS_REMEMBERED` rounds without an unroll: its node has left the cluster, or the
run was resumed with fewer environments.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from replay.row_layout import Rows, array_from_bytes, array_to_bytes
from replay.unroll_layout import UnrollLayout

ROUNDS_REMEMBERED = 10  # in one round, each environment adds one unroll on average


class States(NamedTuple):
    """E states, as networks take them. Each of the two parts may be empty."""

    stacks: NDArray[np.uint8]  # [E, S*C, H, W]
    vectors: NDArray[np.float32]  # [E, D]


class NewestStates:
    """Keeps a copy of one state per environment."""

    def __init__(self, layout: UnrollLayout) -> None:
        self._layout = layout
        channels, *size = layout.frame_shape
        self._shape = layout.frame_stack * channels, *size
        self._states: dict[int, States] = {}  # environment → its one state
        self._last_seen: dict[int, int] = {}  # environment → `_count` after its newest unroll
        self._count = 0  # unrolls observed so far

    def observe(self, row: Rows) -> None:
        """Take the last state of a new unroll, `[nbytes]`."""
        # As `stack_indices`, which takes six times as long for one state.
        steps, stack = self._layout.unroll_length, self._layout.frame_stack
        starts = np.flatnonzero(self._layout.array(row, "dones")) + 1
        episode_start = int(starts[-1]) if len(starts) else -stack
        frames = np.maximum(np.arange(steps - stack + 1, steps + 1), episode_start) + stack - 1
        pictures = self._layout.array(row, "frames")[frames[:stack]].reshape(1, *self._shape)
        vector = np.zeros((1, 0), np.float32)
        if self._layout.vector_length:
            vector = self._layout.array(row, "vectors")[-1:].astype(np.float32)
        environment = int(self._layout.array(row, "environment_id"))
        self._states[environment] = States(pictures, vector)
        self._count += 1
        self._last_seen[environment] = self._count
        if self._count % len(self._states) == 0:
            oldest = self._count - ROUNDS_REMEMBERED * len(self._states)
            for lost in [each for each, seen in self._last_seen.items() if seen < oldest]:
                del self._states[lost], self._last_seen[lost]

    def states(self) -> States:
        """The newest states of all environments."""
        stacks, vectors = zip(*self._states.values(), strict=True)
        return States(np.concatenate(stacks), np.concatenate(vectors))

    def state_dict(self) -> dict[str, Any]:
        stacks, vectors = self.states() if self._states else (np.zeros(0, np.uint8), np.zeros(0, np.float32))
        return {
            "environments": list(self._states),
            "stacks": torch.from_numpy(stacks),
            "vectors": array_to_bytes(vectors),
            "last_seen": [self._last_seen[environment] for environment in self._states],
            "count": self._count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        environments, stacks = state["environments"], state["stacks"].numpy().copy()
        vectors = array_from_bytes(state["vectors"], np.float32).reshape(len(environments), self._layout.vector_length)
        self._states = {
            environment: States(stacks[place : place + 1], vectors[place : place + 1])
            for place, environment in enumerate(environments)
        }
        self._last_seen = dict(zip(environments, state["last_seen"], strict=True))
        self._count = state["count"]
