"""Signs of life of a process whose work for one message may take long."""

import selectors
import time
from multiprocessing.connection import Connection

from workers.messages import Kind, send

HEARTBEAT_SECONDS = 1.0


class Heartbeat:
    """Called after each part of the work; sends one HEARTBEAT a second at most.

    None is sent while a parent that is stopped reads nothing: the pipe would fill up, and this process would wait.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._due = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + HEARTBEAT_SECONDS
            beat(self._connection)


def beat(connection: Connection, index: int = 0) -> None:
    """Send a HEARTBEAT, unless the pipe is so full that this could wait."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_WRITE)
        if selector.select(0):
            send(connection, Kind.HEARTBEAT, index)
