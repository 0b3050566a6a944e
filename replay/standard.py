"""Uniform experience replay."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.array_bytes import array_from_bytes, array_to_bytes
from replay.protocol import Drawn
from replay.storage import Storage
from replay.unroll_layout import Rows


class StandardReplay:
    """The newest `capacity` unrolls; each draw is uniform and without replacement."""

    name = "standard"
    is_fresh = False

    def __init__(self, storage: Storage, share: int, fill_before_draw: int, rng: np.random.Generator) -> None:
        self.share = share
        self._storage = storage
        self._fill_before_draw = fill_before_draw
        self._rng = rng
        self._added = 0
        # Of the unroll at each index of the storage:
        self._order = np.zeros(storage.capacity, dtype=np.int64)  # its number, counted from the first ever added
        self._times_drawn = np.zeros(storage.capacity, dtype=np.int64)

    def __len__(self) -> int:
        return min(self._added, self.capacity)

    @property
    def capacity(self) -> int:
        return self._storage.capacity

    def unrolls_needed(self) -> int:
        return max(0, self._fill_before_draw - len(self))

    def add(self, row: Rows) -> None:
        self._put(self._added % self.capacity, row)

    def _put(self, index: int, row: Rows) -> None:
        self._storage.put(index, row)
        self._order[index] = self._added
        self._times_drawn[index] = 0
        self._added += 1

    def draw(self, out: Rows, updates: int) -> Drawn:
        indices = self._uniform(self.share)
        self._storage.copy_to(indices, out)
        return Drawn(self._count(indices))

    def _uniform(self, count: int) -> NDArray[np.int64]:
        return self._rng.choice(len(self), count, replace=False)

    def _count(self, indices: NDArray[np.int64]) -> float:
        """Note that these are drawn; how often they have been by now, in the mean."""
        self._times_drawn[indices] += 1
        return float(self._times_drawn[indices].mean())

    def state_dict(self) -> dict[str, Any]:
        return {
            "storage": self._storage.state_dict(),
            "added": self._added,
            "order": array_to_bytes(self._order[: len(self)]),
            "times_drawn": array_to_bytes(self._times_drawn[: len(self)]),
            # The generator's state holds integers of 128 bits, which only text carries safely.
            "rng": json.dumps(self._rng.bit_generator.state),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._storage.load_state_dict(state["storage"])
        self._added = state["added"]
        self._order[: len(self)] = array_from_bytes(state["order"], np.int64)
        self._times_drawn[: len(self)] = array_from_bytes(state["times_drawn"], np.int64)
        self._rng.bit_generator.state = json.loads(state["rng"])
