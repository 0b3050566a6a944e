"""Replays that are first in, first out: each unroll is learned from once, or several times with IMPACT."""

from collections.abc import Sequence
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


class CircularQueue:
    """A queue whose shares stay in a ring: draws go through its places in turn, and use each share `uses` times.

    A place whose share is used up takes the next one from the queue. The first share in each place is used
    `first_uses` times, so `len(first_uses)` is the number of places. Size and capacity are those of the unrolls that
    wait for their first use.
    """

    name = "queue"
    is_fresh = True

    def __init__(self, capacity: int, share: int, nbytes: int, uses: int, first_uses: Sequence[int]) -> None:
        self.share = share
        self._waiting = QueueReplay(capacity, share, nbytes)
        self._ring = RawStorage(len(first_uses) * share, nbytes)
        self._uses, self._first_uses = uses, tuple(first_uses)
        self._draws = 0
        self._used = [0] * len(first_uses)  # how often the share in each place has been drawn
        self._left = [0] * len(first_uses)  # how often it will be drawn again

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def capacity(self) -> int:
        return self._waiting.capacity

    @property
    def _place(self) -> int:
        """The place of the next draw."""
        return self._draws % len(self._used)

    def unrolls_needed(self) -> int:
        return 0 if self._left[self._place] else self._waiting.unrolls_needed()

    def add(self, row: Rows) -> None:
        self._waiting.add(row)

    def draw(self, out: Rows, updates: int) -> Drawn:
        place = self._place
        rows = range(place * self.share, (place + 1) * self.share)
        if self._left[place]:
            self._ring.copy_to(np.array(rows), out)
        else:
            self._waiting.draw(out, updates)
            for index, row in zip(rows, out, strict=True):
                self._ring.put(index, row)
            self._used[place] = 0
            self._left[place] = self._first_uses[place] if self._draws < len(self._used) else self._uses
        self._draws += 1
        self._used[place] += 1
        self._left[place] -= 1
        return Drawn(times_drawn=self._used[place])

    def state_dict(self) -> dict[str, Any]:
        return {
            "waiting": self._waiting.state_dict(),
            "ring": self._ring.state_dict(),
            "draws": self._draws,
            "used": list(self._used),
            "left": list(self._left),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._waiting.load_state_dict(state["waiting"])
        self._ring.load_state_dict(state["ring"])
        self._draws, self._used, self._left = state["draws"], list(state["used"]), list(state["left"])
