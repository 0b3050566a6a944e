"""Uniform experience replay."""

import json
from typing import Any

import numpy as np

from replay.storage import RingStorage
from replay.trajectory import Rows


class StandardReplay:
    """The newest `capacity` unrolls; each draw is uniform and without replacement."""

    name = "standard"
    is_fresh = False

    def __init__(self, capacity: int, share: int, nbytes: int, fill_before_draw: int, rng: np.random.Generator) -> None:
        self.share = share
        self._storage = RingStorage(capacity, nbytes)
        self._fill_before_draw = fill_before_draw
        self._rng = rng

    def __len__(self) -> int:
        return len(self._storage)

    @property
    def capacity(self) -> int:
        return self._storage.capacity

    def missing(self) -> int:
        return max(0, self._fill_before_draw - len(self._storage))

    def add(self, row: Rows) -> None:
        self._storage.add(row)

    def draw(self, out: Rows) -> None:
        self._storage.copy_to(self._rng.choice(len(self._storage), self.share, replace=False), out)

    def state_dict(self) -> dict[str, Any]:
        # The generator's state holds integers of 128 bits, which only text carries safely.
        return {"storage": self._storage.state_dict(), "rng": json.dumps(self._rng.bit_generator.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._storage.load_state_dict(state["storage"])
        self._rng.bit_generator.state = json.loads(state["rng"])
