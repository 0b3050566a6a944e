"""First in, first out: the learner sees every unroll exactly once."""

from typing import Any

import numpy as np

from replay.interface import Drawn
from replay.row_layout import Rows
from replay.storage import RawStorage


class QueueReplay:
    """Unrolls in the order of their arrival. Nothing is dropped: a full queue makes the workers wait (backpressure).

    Its capacity is at least its share: a queue of capacity 1 with a share of 5 collects five unrolls for each batch.
    """

    name = "queue"
    is_fresh = True

    def __init__(self, capacity: int, share: int, nbytes: int) -> None:
        self.share = share
        self._storage = RawStorage(max(capacity, share), nbytes)
        self._added = 0
        self._drawn = 0

    def __len__(self) -> int:
        return self._added - self._drawn

    @property
    def capacity(self) -> int:
        return self._storage.capacity

    def unrolls_needed(self) -> int:
        return max(0, self.share - len(self))

    def add(self, row: Rows) -> None:
        if len(self) == self.capacity:
            raise RuntimeError("cannot add an unroll to a full queue")
        self._storage.put(self._added % self.capacity, row)
        self._added += 1

    def draw(self, out: Rows, updates: int) -> Drawn:
        if self.unrolls_needed():
            raise RuntimeError(f"the queue holds {len(self)} unrolls, fewer than its share of {self.share}")
        self._storage.copy_to(np.arange(self._drawn, self._drawn + self.share) % self.capacity, out)
        self._drawn += self.share
        return Drawn(times_drawn=1.0)

    def state_dict(self) -> dict[str, Any]:
        return {"storage": self._storage.state_dict(), "added": self._added, "given": self._drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._storage.load_state_dict(state["storage"])
        self._added, self._drawn = state["added"], state["given"]
