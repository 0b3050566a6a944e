"""Where replays keep their unrolls: rows at indices, raw or compressed."""

from itertools import pairwise
from typing import Any

import lz4.block  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout

HIGH_COMPRESSION_LEVELS = range(1, 13)  # of lz4; 0 is its fast mode


class RawStorage:
    """Rows at the indices 0 to capacity - 1. They are filled in this order before any row is replaced.

    They are not compressed. The operating system provides the memory only as rows are written.
    """

    def __init__(self, capacity: int, nbytes: int) -> None:
        self.capacity = capacity
        self._rows: Rows = np.empty((capacity, nbytes), dtype=np.uint8)
        self._held = 0

    def put(self, index: int, row: Rows) -> None:
        """Keep a copy of `row [nbytes]` at `index`; replaces the row that was there."""
        self._rows[index] = row
        self._held = max(self._held, index + 1)

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        """Write the rows at `indices [n]` to `out [n, nbytes]`."""
        for target, index in zip(out, indices, strict=True):
            target[:] = self._rows[index]

    def state_dict(self) -> dict[str, Any]:
        """All rows, not copied: write them to the file before the next `put`."""
        return {"rows": torch.from_numpy(self._rows[: self._held])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rows = state["rows"].numpy()
        self._rows[: len(rows)] = rows
        self._held = len(rows)


class UnrollCodec:
    """Replaces each frame by its XOR with the frame before it, then compresses the whole row with lz4.

    lz4 finds repetitions within 64 KiB, which is nine frames of 84×84. The XOR helps with larger frames, which lie
    outside of that window: their unrolls become up to four times smaller.
    """

    def __init__(self, layout: UnrollLayout, level: int) -> None:
        frames = layout.by_name["frames"]
        self._nbytes = layout.nbytes
        self._start, self._end = frames.offset, frames.offset + frames.nbytes
        self._frame_nbytes = frames.nbytes // frames.shape[0]
        self._scratch: Rows = np.empty(layout.nbytes, np.uint8)
        self._mode = "high_compression" if level in HIGH_COMPRESSION_LEVELS else "default"
        self._level = level

    def encode(self, row: Rows) -> bytes:
        """`row [nbytes]` → bytes. Not thread-safe."""
        start, end, step = self._start, self._end, self._frame_nbytes
        self._scratch[:] = row
        np.bitwise_xor(row[start + step : end], row[start : end - step], out=self._scratch[start + step : end])
        blob: bytes = lz4.block.compress(self._scratch, mode=self._mode, compression=self._level, store_size=False)
        return blob

    def decode(self, blob: bytes, out: Rows) -> None:
        """Bytes → `out [nbytes]`; the inverse of `encode`. Raises ValueError if they are too few."""
        content = lz4.block.decompress(blob, uncompressed_size=self._nbytes)
        if len(content) != self._nbytes:
            raise ValueError(f"{len(content)} bytes instead of {self._nbytes}")
        out[:] = np.frombuffer(content, np.uint8)
        if not self._frame_nbytes:  # observations without a picture
            return
        frames = out[self._start : self._end].reshape(-1, self._frame_nbytes)
        for before, frame in pairwise(frames):  # accumulate(axis=0) takes 16 times as long
            np.bitwise_xor(frame, before, out=frame)


class CompressedStorage:
    """A `RawStorage` that compresses each row on its own."""

    def __init__(self, capacity: int, codec: UnrollCodec) -> None:
        self.capacity = capacity
        self._codec = codec
        self._blobs: list[bytes] = []

    def put(self, index: int, row: Rows) -> None:
        blob = self._codec.encode(row)
        if index == len(self._blobs):
            self._blobs.append(blob)
        else:
            self._blobs[index] = blob

    def copy_to(self, indices: NDArray[np.int64], out: Rows) -> None:
        for target, index in zip(out, indices, strict=True):
            self._codec.decode(self._blobs[index], target)

    def state_dict(self) -> dict[str, Any]:
        return {"blobs": list(self._blobs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._blobs = [bytes(blob) for blob in state["blobs"]]


Storage = RawStorage | CompressedStorage
