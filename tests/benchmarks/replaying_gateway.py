"""In place of a gateway: it sends recorded rounds."""

from dataclasses import dataclass
from multiprocessing.connection import Connection

from processes.messages import Kind, receive, send


@dataclass(frozen=True)
class ReplayingGateway:
    """Sends as many rounds as are wanted: each time the next recorded one, of the next of several nodes."""

    rounds: tuple[list[bytes], ...]
    nodes: int

    def run(self, connection: Connection) -> None:
        sent = 0
        while True:
            wanted = receive(connection).index
            while sent < wanted:
                unrolls = self.rounds[sent % len(self.rounds)]
                send(connection, Kind.ROUND, payload=(str(sent % self.nodes), unrolls))
                sent += 1
