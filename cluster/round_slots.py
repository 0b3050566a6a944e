"""Places in shared memory where the gateway puts rounds for the learner."""

from typing import Any

import numpy as np

from workers.memory.shared_block import SharedBlock

_HEADER_BYTES = 16  # the length of what follows, and its sender


class RoundSlots:
    """`places` byte strings of up to `nbytes`. The system provides memory only for as much as was ever written."""

    def __init__(self, places: int, nbytes: int) -> None:
        self.places = places
        self.nbytes = nbytes
        self._block = SharedBlock(places * self._stride)

    @property
    def _stride(self) -> int:
        return _HEADER_BYTES + -(-self.nbytes // 64) * 64

    def write(self, place: int, sender: int, content: bytes) -> None:
        """`sender` is the number of the player that the content came from."""
        if len(content) > self.nbytes:
            raise ValueError(f"{len(content)} bytes do not fit into a place of {self.nbytes}")
        start = place * self._stride
        self._block.bytes[start : start + _HEADER_BYTES].view(np.int64)[:] = len(content), sender
        start += _HEADER_BYTES
        self._block.bytes[start : start + len(content)] = np.frombuffer(content, np.uint8)

    def read(self, place: int) -> tuple[int, memoryview]:
        """The sender and the content that were written to a place; a view that is valid until the next write."""
        start = place * self._stride
        length, sender = map(int, self._block.bytes[start : start + _HEADER_BYTES].view(np.int64))
        start += _HEADER_BYTES
        return sender, memoryview(self._block.bytes[start : start + length])  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        return {"places": self.places, "nbytes": self.nbytes, "block": self._block}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.places, self.nbytes, self._block = state["places"], state["nbytes"], state["block"]
