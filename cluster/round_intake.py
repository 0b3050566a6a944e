"""The learner's intake: rounds in shared memory become unrolls, those that must not be learned from are refused."""

from collections import deque
from collections.abc import Callable, Iterator

import lz4.block  # type: ignore[import-untyped]
import numpy as np

from cluster.node_statistics import NodeStatistics
from cluster.round_format import MalformedRoundError, Round, RoundSlots, unpack_round
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from workers.flow_control import PlayOnDemand

MOST_GAPS = 2 * 1024  # rounds of a player that may arrive before an earlier one: as many as it may owe
WINDOW = 1.0  # half as long as for local workers, because rounds of nodes are older already
WORKERS_PER_SEAT = 1024  # environments of nodes are numbered as if each node had so many workers


class RoundIntake:
    """Keeps the slots with rounds in the order in which they arrived, and decodes their unrolls one by one."""

    def __init__(
        self,
        layout: UnrollLayout,
        round_slots: RoundSlots,
        node_statistics: NodeStatistics,
        environments: int,  # of each worker
        max_policy_lag: int,
        free: Callable[[int], None],  # called with each slot whose round is taken completely
        announce: Callable[[str], None],
    ) -> None:
        self.flow_control = PlayOnDemand(0, window=WINDOW)
        self.version = 0  # of the learner's weights
        self._layout = layout
        self._codec = UnrollCodec(layout, 0)
        self._round_slots = round_slots
        self._node_statistics = node_statistics
        self._environments = environments
        self._environments_per_seat = WORKERS_PER_SEAT * environments
        self._max_policy_lag = max_policy_lag
        self._free = free
        self._announce = announce
        self._ready: deque[int] = deque()
        self._round: Round | None = None  # of the first slot
        self._taken = 0  # unrolls of it
        self._row: Rows = np.empty(layout.nbytes, np.uint8)
        self._seen: dict[int, tuple[int, set[int]]] = {}  # player → rounds below this were seen, and those above it
        self._announced: set[str] = set()
        self.malformed = 0  # rounds and unrolls

    @property
    def ready(self) -> int:
        """Rounds that are not taken completely."""
        return len(self._ready)

    def slots(self) -> set[int]:
        """Where they are."""
        return set(self._ready)

    def deliver(self, slot: int) -> None:
        self._ready.append(slot)
        self.flow_control.deliver((0, slot))

    def take_from_round(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls `[nbytes]` of the oldest round; each is valid until the next one is taken."""
        if self._ready and self._round is None:
            self._round = self._open(self._ready[0])
        given = 0
        while self._round is not None and given < limit and self._taken < len(self._round.blobs):
            row = self._decode(self._round, self._taken)
            self._taken += 1
            self.flow_control.unrolls_taken(self._taken, len(self._round.blobs))
            if row is not None:
                given += 1
                yield row
        if self._ready and (self._round is None or self._taken == len(self._round.blobs)):
            if self._round is None:
                self.flow_control.unrolls_taken(1, 1)
            self._round, self._taken = None, 0
            self._free(self._ready.popleft())

    def _open(self, slot: int) -> Round | None:
        """The round there. One that is malformed counts as refused unrolls of the node that sent it."""
        self.flow_control.learner_starts_round()
        sender, content = self._round_slots.read(slot)
        node = self._node_statistics.of_player(sender)
        if node is None:  # it left long ago
            return None
        try:
            opened = unpack_round(content, self._layout.fingerprint)
            if opened.player != sender:
                raise MalformedRoundError("it says that it is from another player")
            if not self._is_new(opened.player, opened.sequence):
                raise MalformedRoundError("it is there for the second time")
        except MalformedRoundError as error:
            node.refused += self._environments
            self._refuse(f"a round of node {node.name}", str(error))
            return None
        return opened

    def _decode(self, current: Round, index: int) -> Rows | None:
        """An unroll of a round; None if it is refused."""
        node = self._node_statistics.of_player(current.player)
        if node is None:  # it left long ago
            return None
        lag = self.version - current.versions[index]
        if self._max_policy_lag and lag > self._max_policy_lag:
            node.refused += 1
            self._announce_once(
                f"node {node.name} sends unrolls that are more than --max_policy_lag={self._max_policy_lag} updates "
                "old; they are refused and counted"
            )
            return None
        problem = self._decode_into_row(current, index)
        if problem:
            node.refused += 1
            self._refuse(f"an unroll of node {node.name}", problem)
            return None
        self._node_statistics.accept(node, lag)
        self._layout.array(self._row, "environment_id")[...] += node.seat * self._environments_per_seat
        return self._row

    def _decode_into_row(self, current: Round, index: int) -> str:
        """Decode one unroll; return what is wrong with it."""
        try:
            self._codec.decode(current.blobs[index], self._row)  # type: ignore[arg-type]
        except (lz4.block.LZ4BlockError, ValueError) as error:
            return f"it cannot be decompressed ({error})"
        if int(self._layout.array(self._row, "weight_version")) != current.versions[index]:
            return "its weight version is not the one in the table"
        if current.versions[index] > self.version:
            return "its weights are newer than those of the learner"
        environment = int(self._layout.array(self._row, "environment_id"))
        if not 0 <= environment < self._environments_per_seat:
            return f"it is from an environment {environment}"
        return ""

    def _is_new(self, player: int, sequence: int) -> bool:
        """Whether this round of the player was not seen before; they may arrive in any order."""
        below, above = self._seen.get(player, (0, set()))
        if sequence < below or sequence in above:
            return False
        above.add(sequence)
        if len(above) > MOST_GAPS:  # a round that was lost on its way never comes
            below = min(above)
        while below in above:
            above.remove(below)
            below += 1
        self._seen[player] = below, above
        return True

    def forget_players(self) -> None:
        """All players of a gateway have ended; the next one numbers its players anew."""
        waiting = set() if self._round is None else {self._round.player}
        self._seen = {player: seen for player, seen in self._seen.items() if player in waiting}

    def _refuse(self, what: str, why: str) -> None:
        self.malformed += 1
        self._announce_once(f"{what} was refused: {why}")

    def _announce_once(self, text: str) -> None:
        if text not in self._announced and len(self._announced) < 100:
            self._announced.add(text)
            self._announce(text)
