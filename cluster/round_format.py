"""A round of unrolls as one byte string: what a node sends to the learner.

A header, then a table with the length and the weight version of each unroll, then the compressed unrolls. Nothing of it
is pickled, and everything is checked before it is used. (Ray itself unpickles what its actors answer, so a cluster has
to trust its nodes.)
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = b"RLr1"
# The magic bytes, the layout's fingerprint, the number of the player, of the round, and how many unrolls.
_HEADER = struct.Struct("<4s16sQQI")
_CHECKSUM = struct.Struct("<I")  # of the header before it, and of everything after it
_ENTRY = struct.Struct("<Iq")
HEADER_BYTES, ENTRY_BYTES = _HEADER.size + _CHECKSUM.size, _ENTRY.size
MOST_UNROLLS = 1 << 16


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
