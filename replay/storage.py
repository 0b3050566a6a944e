"""Where unrolls are kept: it knows nothing of which ones are kept, or of how they are chosen."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from replay.trajectory import Rows


class Storage(Protocol):
    @property
    def capacity(self) -> int: ...

    def put(self, index: int, row: Rows) -> None:
        """Keep a copy of `row [nbytes]` at `index`; indices are used from 0 on."""

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        """Write the rows at `indices [n]` to `out [n, nbytes]`."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class RawStorage:
    """`capacity` rows of `nbytes` bytes, reserved at once but touched only as they fill."""

    def __init__(self, capacity: int, nbytes: int) -> None:
        self._rows: Rows = np.empty((capacity, nbytes), dtype=np.uint8)
        self._filled = 0

    @property
    def capacity(self) -> int:
        return len(self._rows)

    def put(self, index: int, row: Rows) -> None:
        self._rows[index] = row
        self._filled = max(self._filled, index + 1)

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        for target, index in zip(out, indices, strict=True):
            target[:] = self._rows[index]

    def state_dict(self) -> dict[str, Any]:
        """The rows are a view, so that saving never doubles the memory: write them out before the next `put`."""
        return {"rows": torch.from_numpy(self._rows[: self._filled])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rows = state["rows"].numpy()
        if rows.shape[1] != self._rows.shape[1] or len(rows) > self.capacity:
            raise ValueError(f"the saved rows {rows.shape} do not fit a storage of {self._rows.shape}")
        self._rows[: len(rows)] = rows
        self._filled = len(rows)
