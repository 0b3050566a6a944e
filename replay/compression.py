"""Compresses an unroll to bytes, and decompresses it."""

from itertools import pairwise

import lz4.block  # type: ignore[import-untyped]
import numpy as np

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout

HIGH_COMPRESSION_LEVELS = range(1, 13)  # of lz4; 0 is its fast mode


class UnrollCodec:
    """Replaces each frame by its XOR with the frame before it, then compresses the whole row with lz4.

    lz4 finds repetitions within 64 KiB, which is nine frames of 84×84. The XOR helps with larger frames, which lie
    outside of that window: their unrolls become up to four times smaller.
    """

    def __init__(self, layout: UnrollLayout, level: int) -> None:
        frames = layout.field("frames")
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
