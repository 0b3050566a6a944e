"""The circular buffer of IMPACT (Luo et al. 2019, arXiv 1912.00167, section 3.2): each batch is used several times."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from replay.interface import Drawn
from replay.queue import QueueReplay
from replay.row_layout import Rows
from replay.storage import RawStorage


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
