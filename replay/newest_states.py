"""The newest state of each environment: the last state of its newest unroll.

An environment is forgotten after `ROUNDS_REMEMBERED` rounds without an unroll: its worker was replaced, or the run was
resumed with fewer environments.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from replay.row_layout import Rows, array_from_bytes, array_to_bytes
from replay.unroll_layout import UnrollLayout

ROUNDS_REMEMBERED = 10  # in one round, each environment adds one unroll on average


class States(NamedTuple):
    """E states, as networks take them."""

    stacks: NDArray[np.uint8]  # [E, S*C, H, W]
    vectors: NDArray[np.float32]  # [E, D]


class NewestStates:
    """Keeps a copy of one state per environment: a stack of frames and a vector, each of which may be empty."""

    def __init__(self, layout: UnrollLayout) -> None:
        self._layout = layout
        self._stacks: dict[int, Rows] = {}  # environment → [S, C, H, W]
        self._vectors: dict[int, NDArray[np.float32]] = {}  # environment → [D]
        self._last_seen: dict[int, int] = {}  # environment → `_count` after its newest unroll
        self._count = 0  # unrolls observed so far

    def observe(self, row: Rows) -> None:
        """Take the last state of a new unroll, `[nbytes]`."""
        # As `stack_indices`, which takes six times as long for one state.
        steps, stack = self._layout.unroll_length, self._layout.frame_stack
        starts = np.flatnonzero(self._layout.array(row, "dones")) + 1
        episode_start = int(starts[-1]) if len(starts) else -stack
        frames = np.maximum(np.arange(steps - stack + 1, steps + 1), episode_start) + stack - 1
        environment = int(self._layout.array(row, "environment_id"))
        self._stacks[environment] = self._layout.array(row, "frames")[frames[:stack]]
        if self._layout.vector_size:
            self._vectors[environment] = self._newest_vector(row)
        self._count += 1
        self._last_seen[environment] = self._count
        if self._count % len(self._stacks) == 0:
            self._forget(self._count - ROUNDS_REMEMBERED * len(self._stacks))

    def _newest_vector(self, row: Rows) -> NDArray[np.float32]:
        stored = self._layout.stored_vectors
        last = {name: torch.from_numpy(self._layout.array(row, name)[None, -1:].copy()) for name in stored.names}
        vector: NDArray[np.float32] = stored.read(last)[0, 0].numpy()
        return vector

    def states(self) -> States:
        """The newest states of all environments."""
        stacks = np.stack(list(self._stacks.values()))
        channels, *size = self._layout.frame_shape
        return States(
            stacks.reshape(len(stacks), self._layout.frame_stack * channels, *size),
            np.stack(list(self._vectors.values())) if self._vectors else np.zeros((len(stacks), 0), np.float32),
        )

    def _forget(self, before: int) -> None:
        """Drop environments whose newest unroll came before `before` unrolls had been observed."""
        for environment in [environment for environment, seen in self._last_seen.items() if seen < before]:
            del self._stacks[environment], self._last_seen[environment]
            self._vectors.pop(environment, None)

    def state_dict(self) -> dict[str, Any]:
        stacks = np.stack(list(self._stacks.values())) if self._stacks else np.zeros((0, 1), dtype=np.uint8)
        return {
            "environments": list(self._stacks),
            "stacks": torch.from_numpy(stacks),
            **({"vectors": array_to_bytes(np.concatenate(list(self._vectors.values())))} if self._vectors else {}),
            "noted": [self._last_seen[environment] for environment in self._stacks],
            "count": self._count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        environments = state["environments"]
        self._stacks = dict(zip(environments, state["stacks"].numpy().copy(), strict=True))
        if "vectors" in state:
            vectors = array_from_bytes(state["vectors"], np.float32).reshape(len(environments), -1)
            self._vectors = dict(zip(environments, vectors, strict=True))
        self._count = state["count"]
        self._last_seen = dict(zip(environments, state["noted"], strict=True))
