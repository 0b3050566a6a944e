"""How a worker process begins: light to import, so that it watches its learner before it loads anything heavy."""

import os
import pickle
import threading
import traceback
from multiprocessing import connection as connections
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from workers.messages import send_error


class Packed:
    """A value that a spawned child unpacks when it asks for it, not while it starts."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def unpack(self) -> Any:
        return pickle.loads(self._payload)

    def __getstate__(self) -> bytes:
        return bytes(ForkingPickler.dumps(self._value))

    def __setstate__(self, payload: bytes) -> None:
        self._payload = payload


def worker_main(packed_worker: Packed, connection: Connection) -> None:
    """Unpack the worker and run it until the learner hangs up; an exception goes to the learner before it ends this."""
    threading.Thread(target=_end_with_learner, daemon=True).start()
    try:
        packed_worker.unpack().run(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except BaseException:
        send_error(connection, traceback.format_exc())
        os._exit(1)


def _end_with_learner() -> None:
    learner = parent_process()
    assert learner is not None
    connections.wait([learner.sentinel])
    os._exit(1)
