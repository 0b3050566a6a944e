"""Finds out where a silent process hangs: its parent interrupts it, and it answers with the place and ends."""

import faulthandler
import os
import re
import signal
from contextlib import suppress
from multiprocessing.process import BaseProcess

from wrappers.any_environment.faults import NoAnswerError

INTERRUPT = signal.SIGUSR2
GRACE_SECONDS = 5.0  # in which an interrupted process can say where it was
ADAPTER = "any_environment/adapter.py"  # what is called below it is the environment's own code
MOST_LINES = 12


def accept_interrupts(file: int | None) -> None:
    """In the child's main thread: from now on, an interrupt writes its place to `file` and raises NoAnswerError.

    Code that does not return to Python cannot be interrupted, so the place is written first, by another way.
    """
    signal.signal(INTERRUPT, _raise)
    if file is not None:
        faulthandler.register(INTERRUPT, file=file, all_threads=False, chain=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [INTERRUPT])


def interrupt(process: BaseProcess) -> None:
    """In the parent: ask a process where it is. It ends with an error, unless it cannot."""
    if process.pid is not None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process.pid, INTERRUPT)


def place_in(dump: str) -> str:
    """The lines of a dump that say where a process was, most recent call first; empty if there are none."""
    frames = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', dump, re.MULTILINE)
    own = next((number for number, (path, _, _) in enumerate(frames) if path.endswith(ADAPTER)), len(frames))
    lines = [f'  File "{path}", line {line}, in {function}' for path, line, function in frames[: own or None]]
    return "\n".join(lines[:MOST_LINES])


def _raise(number: int, frame: object) -> None:
    raise NoAnswerError("no answer within --worker_timeout")
