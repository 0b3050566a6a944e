"""Signs of life of a process whose work for one message may take long."""

import time
from multiprocessing.connection import Connection

from workers.messages import Kind, send

HEARTBEAT_SECONDS = 1.0


class Heartbeat:
    """Called after each part of the work; sends one HEARTBEAT a second at most."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._due = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + HEARTBEAT_SECONDS
            send(self._connection, Kind.HEARTBEAT)
