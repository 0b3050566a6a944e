"""Gateways without Ray, for tests of the process that watches them, and for measurements."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from cluster.rounds import RoundSlots, pack_round, unpack_round
from processes.messages import Kind, receive, send


@dataclass(frozen=True)
class EchoGateway:
    """Reports that it is connected, then answers each free place with a round there."""

    def run(self, connection: Connection) -> None:
        send(connection, Kind.HEARTBEAT, 1)
        while True:
            message = receive(connection)
            if message.kind == Kind.SLOT_FREE:
                send(connection, Kind.SLOT_FILLED, message.index)


@dataclass(frozen=True)
class UnreachableGateway:
    """Cannot connect."""

    why: str = "nobody is there"

    def run(self, connection: Connection) -> None:
        raise ConnectionError(self.why)


@dataclass(frozen=True)
class SilentGateway:
    """Connects, and then hangs."""

    def run(self, connection: Connection) -> None:
        send(connection, Kind.HEARTBEAT, 1)
        time.sleep(1000)


@dataclass(frozen=True)
class FailingGateway:
    """Connects and fails; `worked`: after some heartbeats."""

    worked: bool

    def run(self, connection: Connection) -> None:
        send(connection, Kind.HEARTBEAT, 1)
        if self.worked:
            send(connection, Kind.HEARTBEAT)
        raise ConnectionError("the head has ended")


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
