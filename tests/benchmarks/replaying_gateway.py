"""In place of a gateway: it sends recorded rounds."""

from dataclasses import dataclass
from multiprocessing.connection import Connection

from cluster.rounds import RoundSlots, pack_round, unpack_round
from processes.messages import Kind, receive, send


@dataclass(frozen=True)
class ReplayingGateway:
    """Fills each free slot with the next recorded round of the next of several nodes."""

    round_slots: RoundSlots
    rounds: tuple[bytes, ...]
    fingerprint: str
    nodes: int

    def run(self, connection: Connection) -> None:
        rounds = [unpack_round(content, self.fingerprint) for content in self.rounds]
        sent = 0
        while True:
            slot = receive(connection).index
            recorded = rounds[sent % len(rounds)]
            content = pack_round(self.fingerprint, recorded)
            self.round_slots.write(slot, content)
            send(connection, Kind.SLOT_FILLED, slot, (str(sent % self.nodes), len(content)))
            sent += 1
