"""A ring of unrolls: it keeps rows and knows nothing of how they are chosen."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.trajectory import Rows


class RingStorage:
    """The newest `capacity` rows of `nbytes` bytes; a new row takes the place of the oldest.

    Memory is reserved at once but touched only as it fills. Row number n, counted from the first ever added, stands at
    index n % capacity.
    """

    def __init__(self, capacity: int, nbytes: int) -> None:
        self._rows: Rows = np.empty((capacity, nbytes), dtype=np.uint8)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    @property
    def capacity(self) -> int:
        return len(self._rows)

    def add(self, row: Rows) -> None:
        """Keep a copy of `row [nbytes]`."""
        self._rows[self.added % self.capacity] = row
        self.added += 1

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        """Write the rows at `indices [n]` to `out [n, nbytes]`."""
        for target, index in zip(out, indices, strict=True):
            target[:] = self._rows[index]

    def state_dict(self) -> dict[str, Any]:
        """The rows are a view, so that saving never doubles the memory: write them out before the next `add`."""
        return {"added": self.added, "rows": torch.from_numpy(self._rows[: len(self)])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rows = state["rows"].numpy()
        if rows.shape != (min(state["added"], self.capacity), self._rows.shape[1]):
            raise ValueError(f"the saved rows {rows.shape} do not fit a ring of {self._rows.shape}")
        self._rows[: len(rows)] = rows
        self.added = state["added"]
