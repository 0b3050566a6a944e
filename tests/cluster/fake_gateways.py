"""Gateways without Ray, for tests of the process that watches them."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from processes.messages import Kind, receive, send


@dataclass(frozen=True)
class EchoGateway:
    """Reports that it is connected, then answers what is wanted with as many figures."""

    def run(self, connection: Connection) -> None:
        send(connection, Kind.HEARTBEAT, 1)
        while True:
            message = receive(connection)
            if message.kind == Kind.ROUNDS_WANTED:
                send(connection, Kind.NODE_FIGURES, message.index)


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
