"""Slots in shared memory where the gateway puts rounds for the learner."""

from typing import Any

import numpy as np

from workers.memory.shared_block import SharedBlock

_HEADER_BYTES = 16  # the length of what follows, and its sender


class RoundSlots:
    """`count` byte strings of up to `nbytes`. The system provides memory only for as much as was ever written."""

    def __init__(self, count: int, nbytes: int) -> None:
        self.count = count
        self.nbytes = nbytes
        self._block = SharedBlock(count * self._stride)

    @property
    def _stride(self) -> int:
        return _HEADER_BYTES + -(-self.nbytes // 64) * 64

    def write(self, slot: int, sender: int, content: bytes) -> None:
        """`sender` is the number of the player that the content came from."""
        if len(content) > self.nbytes:
            raise ValueError(f"{len(content)} bytes do not fit into a slot of {self.nbytes}")
        start = slot * self._stride
        self._block.bytes[start : start + _HEADER_BYTES].view(np.int64)[:] = len(content), sender
        start += _HEADER_BYTES
        self._block.bytes[start : start + len(content)] = np.frombuffer(content, np.uint8)

    def read(self, slot: int) -> tuple[int, memoryview]:
        """The sender and the content that were written to a slot; a view that is valid until the next write."""
        start = slot * self._stride
        length, sender = map(int, self._block.bytes[start : start + _HEADER_BYTES].view(np.int64))
        start += _HEADER_BYTES
        return sender, memoryview(self._block.bytes[start : start + length])  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        return {"count": self.count, "nbytes": self.nbytes, "block": self._block}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.count, self.nbytes, self._block = state["count"], state["nbytes"], state["block"]
