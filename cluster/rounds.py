"""A round of unrolls as one byte string: how a node packs it, where the gateway puts it, how the learner takes it in.

A header, then a table with the length of each unroll, then the compressed unrolls. Nothing of it is pickled, and
everything is checked before it is used. (Ray itself unpickles what its actors answer, so a cluster has to trust its
nodes.)
"""

import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cluster.node_statistics import Node, NodeStatistics
from option_flags import Config
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from workers.flow_control import PlayOnDemand
from workers.memory.shared_array import SharedArray

WINDOW = 1.0  # half as long as for local workers, because rounds of nodes are older already
WORKERS_PER_SEAT = 1024  # environments of nodes are numbered as if each node had so many workers

_HEADER = struct.Struct("<16sI")  # the layout's fingerprint, and how many unrolls
_CHECKSUM = struct.Struct("<I")  # of the header before it, and of everything after it
_LENGTH = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size


class MalformedRoundError(ValueError):
    """Bytes that are no round; the message says why."""


def pack_round(fingerprint: str, blobs: Sequence[bytes | memoryview]) -> bytes:
    """The inverse of `unpack_round`."""
    header = _HEADER.pack(fingerprint.encode(), len(blobs))
    table = b"".join(_LENGTH.pack(len(blob)) for blob in blobs)
    checksum = 0
    for part in (header, table, *blobs):
        checksum = zlib.crc32(part, checksum)
    return b"".join([header, _CHECKSUM.pack(checksum), table, *blobs])


def unpack_round(content: bytes | memoryview, fingerprint: str) -> list[memoryview]:
    """The compressed unrolls of a round, in order; they are views of `content`. Raises MalformedRoundError."""
    content = memoryview(content)
    if len(content) < HEADER_BYTES:
        raise MalformedRoundError(f"{len(content)} bytes are too few for a round")
    (checksum,) = _CHECKSUM.unpack_from(content, _HEADER.size)
    if zlib.crc32(content[HEADER_BYTES:], zlib.crc32(content[: _HEADER.size])) != checksum:
        raise MalformedRoundError("its checksum is wrong")
    layout, count = _HEADER.unpack_from(content)
    if layout != fingerprint.encode():
        raise MalformedRoundError("its unrolls have another layout")
    start = HEADER_BYTES + count * _LENGTH.size
    blobs = []
    for (length,) in _LENGTH.iter_unpack(content[HEADER_BYTES:start]):
        blobs.append(content[start : start + length])
        start += length
    return blobs


def longest_round(unrolls: int, nbytes: int) -> int:
    """Bytes of a round of so many unrolls of `nbytes` that lz4 cannot compress."""
    longest_blob = nbytes + nbytes // 255 + 16
    return HEADER_BYTES + unrolls * (_LENGTH.size + longest_blob)


class RoundSlots:
    """Slots in shared memory: `count` byte strings of up to `nbytes`.

    The system provides memory only for as much as was ever written.
    """

    def __init__(self, count: int, nbytes: int) -> None:
        self.count = count
        self.nbytes = nbytes
        self._stride = -(-nbytes // 64) * 64
        self._bytes = SharedArray((count * self._stride,))

    def write(self, slot: int, content: bytes) -> None:
        start = slot * self._stride
        self._bytes.array[start : start + len(content)] = np.frombuffer(content, np.uint8)

    def read(self, slot: int, length: int) -> memoryview:
        """What was written to a slot; a view that is valid until the next write."""
        start = slot * self._stride
        return memoryview(self._bytes.array[start : start + length])  # type: ignore[arg-type]


class Arrived(NamedTuple):
    """A round in shared memory."""

    slot: int
    node: str
    nbytes: int


class RoundIntake:
    """The rounds that have arrived, in their order. Unrolls that must not be learned from are refused and counted."""

    def __init__(
        self, layout: UnrollLayout, slots: RoundSlots, config: Config, announce: Callable[[str], None], version: int
    ) -> None:
        self.flow_control = PlayOnDemand(0, window=WINDOW)
        self.nodes = NodeStatistics(layout.unroll_length)
        self.version = version  # of the learner's weights
        self.free: list[int] = []  # slots whose rounds are taken completely
        self._layout = layout
        self._codec = UnrollCodec(layout, 0)
        self._slots = slots
        self._environments = config.workers.envs_per_worker
        self._max_policy_lag = config.cluster.max_policy_lag
        self._announce = announce
        self._announced: set[str] = set()
        self._arrived: deque[Arrived] = deque()
        self._node: Node | None = None  # of the oldest round
        self._unrolls: list[memoryview] | None = None  # of the oldest round, once it is opened
        self._taken = 0  # of these
        self._row: Rows = np.empty(layout.nbytes, np.uint8)

    @property
    def ready(self) -> int:
        """Rounds that are not taken completely."""
        return len(self._arrived)

    def slots_in_use(self) -> set[int]:
        return {arrived.slot for arrived in self._arrived}

    def deliver(self, arrived: Arrived) -> None:
        self._arrived.append(arrived)
        self.flow_control.deliver((0, arrived.slot))

    def take_from_round(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls `[nbytes]` of the oldest round; each is valid until the next one is taken."""
        if self._unrolls is None:
            self._unrolls = self._open(self._arrived[0])
        given, count = 0, len(self._unrolls)
        while given < limit and self._taken < count:
            self._codec.decode(self._unrolls[self._taken], self._row)  # type: ignore[arg-type]
            self._taken += 1
            self.flow_control.unrolls_taken(self._taken, count)
            if self._is_accepted():
                given += 1
                yield self._row
        if self._taken == count:
            if not count:
                self.flow_control.unrolls_taken(1, 1)
            self._unrolls, self._taken = None, 0
            self.free.append(self._arrived.popleft().slot)

    def _open(self, arrived: Arrived) -> list[memoryview]:
        """The compressed unrolls of a round. None of one that is malformed, or of a node that left long ago."""
        self.flow_control.learner_starts_round()
        self._node = self.nodes.get(arrived.node)
        if self._node is None:
            return []
        try:
            return unpack_round(self._slots.read(arrived.slot, arrived.nbytes), self._layout.fingerprint)
        except MalformedRoundError as error:
            self._node.refuse(self._environments)
            self._announce_once(f"a round of node {arrived.node} was refused: {error}")
            return []

    def _is_accepted(self) -> bool:
        """Whether the unroll in the row is new enough. Its environment gets a number of its own in the run."""
        assert self._node is not None
        lag = self.version - int(self._layout.array(self._row, "weight_version"))
        if self._max_policy_lag and lag > self._max_policy_lag:
            self._node.refuse(1)
            self._announce_once(
                f"node {self._node.name} sends unrolls that are more than --max_policy_lag={self._max_policy_lag} "
                "updates old; they are refused and counted"
            )
            return False
        self._node.accept(lag)
        first = self._node.seat * WORKERS_PER_SEAT * self._environments
        self._layout.array(self._row, "environment_id")[...] += first
        return True

    def _announce_once(self, text: str) -> None:
        if text not in self._announced:
            self._announced.add(text)
            self._announce(text)
