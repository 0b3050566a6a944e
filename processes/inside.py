"""The inside of a child process: what happens before its work, and at its end.

This module imports nothing slow, so that a child watches its parent before it loads torch.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from processes.handover import unpack
from processes.messages import Kind, send, send_error

HEARTBEAT_SECONDS = 1.0
ASK_WHERE = signal.SIGUSR2  # the parent asks a silent child where it hangs
OUTPUT, ERRORS = 1, 2


class Heartbeat:
    """Called after each part of the work; sends one HEARTBEAT a second at most.

    A parent that is stopped reads none. When the pipe is full, after some minutes, this process waits for it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def __call__(self, index: int = 0) -> None:
        if self.is_due:
            self._due = time.monotonic() + HEARTBEAT_SECONDS
            send(self._connection, Kind.HEARTBEAT, index)


def main() -> None:
    """The life of a spawned child. Its words are the numbers of its open files, and its name."""
    *numbers, _ = sys.argv[1:]
    del sys.argv[1:]  # an environment may look at them
    live([int(number) for number in numbers])


def live(files: Sequence[int]) -> None:
    """Unpack the work and do it, until the parent closes the connection; send an exception to the parent."""
    content, pipe, lifeline, printed, *handed = files
    for file in files:
        os.set_inheritable(file, False)
    for stream in (OUTPUT, ERRORS):
        os.dup2(printed, stream)
    os.close(printed)
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # so that the last lines of a killed process can be read
    # The place is written even if the code never returns to Python.
    faulthandler.register(ASK_WHERE, file=ERRORS, all_threads=False)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    # It is the parent that ends this process. SIGTERM is unblocked, because the programs that an environment starts
    # inherit what is blocked and could not be ended by it. They do inherit the block of the other signals, so that
    # CTRL+C does not end them while the run still needs them.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    connection = Connection(pipe)
    try:
        unpack(content, handed).run(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException as error:
        _end_programs()
        with suppress(OSError):  # the parent has ended
            report = getattr(error, "report", None)  # what some exceptions say in place of a traceback
            send_error(connection, report if isinstance(report, str) else traceback.format_exc())
        os._exit(1)
    _end_programs()


def _end_with_parent(lifeline: int) -> None:
    """Wait until no process holds the other end of this pipe, then end."""
    os.read(lifeline, 1)
    with suppress(ProcessLookupError):  # a forked child has no group of its own
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _end_programs() -> None:
    """End the programs that the environments of this process have started, but not the process itself."""
    with suppress(OSError):  # the parent has ended: so does this process
        os.setpgid(0, os.getpgid(os.getppid()))
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(os.getpid(), signal.SIGKILL)
