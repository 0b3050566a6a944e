"""Uniform experience replay."""

import json
from typing import Any

import numpy as np

from replay.storage import Storage
from replay.trajectory import Rows


class StandardReplay:
    """The newest `capacity` unrolls; each draw is uniform and without replacement."""

    name = "standard"
    is_fresh = False

    def __init__(self, storage: Storage, share: int, fill_before_draw: int, rng: np.random.Generator) -> None:
        self.share = share
        self._storage = storage
        self._added = 0
        self._fill_before_draw = fill_before_draw
        self._rng = rng

    def __len__(self) -> int:
        return min(self._added, self.capacity)

    @property
    def capacity(self) -> int:
        return self._storage.capacity

    def missing(self) -> int:
        return max(0, self._fill_before_draw - len(self))

    def add(self, row: Rows) -> None:
        self._storage.put(self._added % self.capacity, row)
        self._added += 1

    def draw(self, out: Rows) -> None:
        self._storage.copy_to(self._rng.choice(len(self), self.share, replace=False), out)

    def state_dict(self) -> dict[str, Any]:
        # The generator's state holds integers of 128 bits, which only text carries safely.
        rng = json.dumps(self._rng.bit_generator.state)
        return {"storage": self._storage.state_dict(), "added": self._added, "rng": rng}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._storage.load_state_dict(state["storage"])
        self._added = state["added"]
        self._rng.bit_generator.state = json.loads(state["rng"])
