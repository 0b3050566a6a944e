"""A round of unrolls as one byte string: what a node sends to the learner, and where the gateway puts it for that.

A header, then a table with the length and the weight version of each unroll, then the compressed unrolls. Nothing of it
is pickled, and everything is checked before it is used. (Ray itself unpickles what its actors answer, so a cluster has
to trust its nodes.)
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workers.memory.shared_array import SharedArray

MAGIC = b"RLr1"
# The magic bytes, the layout's fingerprint, the number of the player, of the round, and how many unrolls.
_HEADER = struct.Struct("<4s16sQQI")
_CHECKSUM = struct.Struct("<I")  # of the header before it, and of everything after it
_ENTRY = struct.Struct("<Iq")
HEADER_BYTES, ENTRY_BYTES = _HEADER.size + _CHECKSUM.size, _ENTRY.size
MOST_UNROLLS = 1 << 16
_LABEL_BYTES = 16  # of a slot: the length of its round, and the player that sent it


class MalformedRoundError(ValueError):
    """Bytes that are no round; the message says why."""


class Round(NamedTuple):
    """The unrolls of one round, in order."""

    player: int  # number of the start of a player on a node; each start of a run has its own
    sequence: int  # rounds of this player before it
    versions: tuple[int, ...]  # weight version of each unroll
    blobs: tuple[memoryview, ...]  # the compressed unrolls


def pack_round(
    fingerprint: str, player: int, sequence: int, versions: Sequence[int], blobs: Sequence[bytes | memoryview]
) -> bytes:
    """The inverse of `unpack_round`."""
    table = b"".join(_ENTRY.pack(len(blob), version) for blob, version in zip(blobs, versions, strict=True))
    header = _HEADER.pack(MAGIC, fingerprint.encode(), player, sequence, len(blobs))
    checksum = 0
    for part in (header, table, *blobs):
        checksum = zlib.crc32(part, checksum)
    return b"".join([header, _CHECKSUM.pack(checksum), table, *blobs])


def unpack_round(content: bytes | memoryview, fingerprint: str) -> Round:
    """The round in `content`, whose unrolls are views of it. Raises MalformedRoundError."""
    content = memoryview(content)
    if len(content) < HEADER_BYTES:
        raise MalformedRoundError(f"{len(content)} bytes are too few for a round")
    magic, layout, player, sequence, count = _HEADER.unpack_from(content)
    if magic != MAGIC:
        raise MalformedRoundError("it does not begin like a round")
    if layout != fingerprint.encode():
        raise MalformedRoundError("its unrolls have another layout")
    if not 0 < count <= MOST_UNROLLS:
        raise MalformedRoundError(f"it says that it has {count} unrolls")
    start = HEADER_BYTES + count * ENTRY_BYTES
    if len(content) < start:
        raise MalformedRoundError(f"{len(content)} bytes are too few for {count} unrolls")
    table = list(_ENTRY.iter_unpack(content[HEADER_BYTES:start]))
    if start + sum(length for length, _ in table) != len(content):
        raise MalformedRoundError(f"its unrolls do not add up to {len(content)} bytes")
    (checksum,) = _CHECKSUM.unpack_from(content, _HEADER.size)
    if zlib.crc32(content[HEADER_BYTES:], zlib.crc32(content[: _HEADER.size])) != checksum:
        raise MalformedRoundError("its checksum is wrong")
    blobs = []
    for length, _ in table:
        blobs.append(content[start : start + length])
        start += length
    return Round(player, sequence, tuple(version for _, version in table), tuple(blobs))


def longest_round(unrolls: int, nbytes: int) -> int:
    """Bytes of a round of so many unrolls of `nbytes` that lz4 cannot compress."""
    longest_blob = nbytes + nbytes // 255 + 16
    return HEADER_BYTES + unrolls * (ENTRY_BYTES + longest_blob)


class RoundSlots:
    """Slots in shared memory: `count` byte strings of up to `nbytes`.

    The system provides memory only for as much as was ever written.
    """

    def __init__(self, count: int, nbytes: int) -> None:
        self.count = count
        self.nbytes = nbytes
        self._bytes = SharedArray((count * self._stride,))

    @property
    def _stride(self) -> int:
        return _LABEL_BYTES + -(-self.nbytes // 64) * 64

    def write(self, slot: int, sender: int, content: bytes) -> None:
        """`sender` is the number of the player that the content came from."""
        if len(content) > self.nbytes:
            raise ValueError(f"{len(content)} bytes do not fit into a slot of {self.nbytes}")
        start = slot * self._stride
        self._bytes.array[start : start + _LABEL_BYTES].view(np.int64)[:] = len(content), sender
        start += _LABEL_BYTES
        self._bytes.array[start : start + len(content)] = np.frombuffer(content, np.uint8)

    def read(self, slot: int) -> tuple[int, memoryview]:
        """The sender and the content that were written to a slot; a view that is valid until the next write."""
        start = slot * self._stride
        length, sender = map(int, self._bytes.array[start : start + _LABEL_BYTES].view(np.int64))
        start += _LABEL_BYTES
        return sender, memoryview(self._bytes.array[start : start + length])  # type: ignore[arg-type]
