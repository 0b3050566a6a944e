"""How a worker process begins: light to import, so that it watches its learner before it loads anything heavy."""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import connection as connections
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from workers.messages import send_error

FOR_THE_LEARNER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

_SPAWN = multiprocessing.get_context("spawn")  # CUDA and OpenCV both break under fork


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


def start_process(worker: Any, name: str, *handed_over: Connection) -> tuple[BaseProcess, Connection]:
    """Start a process that runs `worker.run(connection, *handed_over)`; return it and the other end of the connection.

    What is handed over is closed here: the process alone holds it then. OSError where the system has no room for it.
    """
    with ExitStack() as ours, ExitStack() as not_ours:
        for end in handed_over:
            not_ours.enter_context(end)
        connection, worker_end = multiprocessing.Pipe()
        not_ours.enter_context(worker_end)
        ours.enter_context(connection)
        process = _SPAWN.Process(
            target=worker_main, args=(Packed(worker), worker_end, *handed_over), name=name, daemon=True
        )
        with _interrupts_blocked():
            process.start()
        ours.pop_all()
    return process, connection


def end_process(process: BaseProcess, connection: Connection) -> int:
    """Kill the process if it lives, and return its exit code."""
    connection.close()
    process.kill()
    process.join()
    exit_code = process.exitcode
    process.close()
    assert exit_code is not None
    return exit_code


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A child started here never sees what a terminal or a scheduler sends to all processes of a run, not even while it
    starts: that is for the learner alone to handle. Children leave when the learner does, or are killed by it.
    """
    resource_tracker.ensure_running()  # would otherwise be started by the first child's start, and lift the block
    signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_LEARNER)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_LEARNER)


def worker_main(packed_worker: Packed, connection: Connection, *handed_over: Connection) -> None:
    """Unpack the worker and run it until the learner hangs up; an exception goes to the learner before it ends this."""
    threading.Thread(target=_end_with_learner, daemon=True).start()
    try:
        packed_worker.unpack().run(connection, *handed_over)
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
