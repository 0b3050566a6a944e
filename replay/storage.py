"""Where replays keep their unrolls: rows at indices, raw or compressed. Replays choose the indices."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from replay.compression import UnrollCodec
from replay.row_layout import Rows

# Bytes of memory for one blob besides its content: the header of a bytes object (33), rounding and header of malloc
# (16), an entry of the list (8, and up to an eighth more that the list reserves).
BLOB_OVERHEAD = 64


class Storage(Protocol):
    """Rows at the indices 0 to capacity - 1. They are filled in this order before any row is replaced."""

    @property
    def capacity(self) -> int: ...

    @property
    def bytes_held(self) -> int:
        """Memory of the rows it holds now."""

    def put(self, index: int, row: Rows) -> None:
        """Keep a copy of `row [nbytes]` at `index`; replaces the row that was there."""

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        """Write the rows at `indices [n]` to `out [n, nbytes]`."""

    def state_dict(self) -> dict[str, Any]:
        """All rows, not copied: write them to the file before the next `put`."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class RawStorage:
    """Uncompressed rows. The operating system provides the memory only as rows are written."""

    def __init__(self, capacity: int, nbytes: int) -> None:
        self._rows: Rows = np.empty((capacity, nbytes), dtype=np.uint8)
        self._nbytes = nbytes
        self._held = 0

    @property
    def capacity(self) -> int:
        return len(self._rows)

    @property
    def bytes_held(self) -> int:
        return self._held * self._nbytes

    def put(self, index: int, row: Rows) -> None:
        self._rows[index] = row
        self._held = max(self._held, index + 1)

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        for target, index in zip(out, indices, strict=True):
            target[:] = self._rows[index]

    def state_dict(self) -> dict[str, Any]:
        return {"capacity": self.capacity, "rows": torch.from_numpy(self._rows[: self._held])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rows = state["rows"].numpy()
        if state["capacity"] != self.capacity or rows.shape[1] != self._nbytes or len(rows) > self.capacity:
            raise ValueError(
                f"the saved rows {rows.shape} of a capacity of {state['capacity']} do not fit {self._rows.shape}"
            )
        self._rows[: len(rows)] = rows
        self._held = len(rows)


class CompressedStorage:
    """Each row is compressed on its own."""

    def __init__(self, capacity: int, codec: UnrollCodec) -> None:
        self._capacity = capacity
        self._codec = codec
        self._blobs: list[bytes] = []

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def bytes_held(self) -> int:
        return sum(map(len, self._blobs)) + BLOB_OVERHEAD * len(self._blobs)

    def put(self, index: int, row: Rows) -> None:
        if not 0 <= index < self._capacity:
            raise IndexError(f"index {index} is outside of the capacity of {self._capacity}")
        blob = self._codec.encode(row)
        if index == len(self._blobs):
            self._blobs.append(blob)
        else:
            self._blobs[index] = blob

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        for target, index in zip(out, indices, strict=True):
            self._codec.decode(self._blobs[index], target)

    def state_dict(self) -> dict[str, Any]:
        return {"capacity": self._capacity, "blobs": list(self._blobs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        blobs: Sequence[bytes | memoryview] = state["blobs"]
        if state["capacity"] != self._capacity or len(blobs) > self._capacity:
            raise ValueError(
                f"{len(blobs)} saved rows of a capacity of {state['capacity']} do not fit {self._capacity} rows"
            )
        self._blobs = [bytes(blob) for blob in blobs]
