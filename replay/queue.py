"""The replay that is first in, first out: each unroll is learned from once, or several times with IMPACT."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from replay.mix import Drawn
from replay.row_layout import Rows
from replay.storage import RawStorage


class QueueReplay:
    """Unrolls in the order of their arrival. Nothing is dropped: a full queue makes the workers wait (backpressure).

    Its capacity is at least its share: a queue of capacity 1 with a share of 5 collects five unrolls for each batch.

    With IMPACT, shares stay in a ring of `len(first_uses)` places: draws go through the places in turn, and use each
    share `uses` times. A place whose share is used up takes the next one from the queue. The first share in each place
    is used `first_uses` times. Size and capacity are those of the unrolls that wait for their first use.
    """

    name = "queue"
    is_fresh = True

    def __init__(self, capacity: int, share: int, nbytes: int, uses: int = 1, first_uses: Sequence[int] = (1,)) -> None:
        self.share = share
        self.capacity = max(capacity, share)
        self._waiting = RawStorage(self.capacity, nbytes)
        self._added = self._taken = 0  # unrolls
        self._ring = RawStorage(len(first_uses) * share, nbytes)
        self._uses, self._first_uses = uses, tuple(first_uses)
        self._draws = 0
        self._used = [0] * len(first_uses)  # how often the share in each place has been drawn
        self._left = [0] * len(first_uses)  # how often it will be drawn again

    def __len__(self) -> int:
        return self._added - self._taken

    @property
    def _place(self) -> int:
        """The place of the next draw."""
        return self._draws % len(self._used)

    def unrolls_needed(self) -> int:
        return 0 if self._left[self._place] else max(0, self.share - len(self))

    def add(self, row: Rows) -> None:
        if len(self) == self.capacity:
            raise RuntimeError("cannot add an unroll to a full queue")
        self._waiting.put(self._added % self.capacity, row)
        self._added += 1

    def draw(self, out: Rows, updates: int) -> Drawn:
        if self.unrolls_needed():
            raise RuntimeError(f"the queue holds {len(self)} unrolls, fewer than its share of {self.share}")
        place = self._place
        in_ring = range(place * self.share, (place + 1) * self.share)
        if self._left[place]:
            self._ring.copy_to(np.array(in_ring), out)
        else:
            self._waiting.copy_to(np.arange(self._taken, self._taken + self.share) % self.capacity, out)
            self._taken += self.share
            self._used[place] = 0
            self._left[place] = self._first_uses[place] if self._draws < len(self._used) else self._uses
            if self._uses > 1:
                for index, row in zip(in_ring, out, strict=True):
                    self._ring.put(index, row)
        self._draws += 1
        self._used[place] += 1
        self._left[place] -= 1
        return Drawn(times_drawn=self._used[place])

    def state_dict(self) -> dict[str, Any]:
        return {
            "waiting": self._waiting.state_dict(),
            "added": self._added,
            "taken": self._taken,
            "ring": self._ring.state_dict(),
            "draws": self._draws,
            "used": list(self._used),
            "left": list(self._left),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._waiting.load_state_dict(state["waiting"])
        self._ring.load_state_dict(state["ring"])
        self._added, self._taken, self._draws = state["added"], state["taken"], state["draws"]
        self._used, self._left = list(state["used"]), list(state["left"])
