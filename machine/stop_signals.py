"""CTRL+C, SIGTERM, a closed terminal and SIGUSR1: what they do while a program starts, and while it trains.

It is the first import of a program, and imports little: before the handlers are set, CTRL+C would give a traceback.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME_SIGNAL_SECONDS = 0.5  # a second signal within this time does not count: a closed terminal sends SIGHUP twice


def exit_on_signals() -> None:
    """End with a sentence at a stop signal while the program starts: there is nothing to clean up or to save yet.

    SIGUSR1 (save now) has no effect. Under nohup, the terminal may be closed.
    """
    for number in STOP_SIGNALS:
        if not _is_under_nohup(number):
            signal.signal(number, _end_at_start)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def stopped_at_start(number: int = signal.SIGINT) -> int:
    """Say that a signal came before the program began its work; return the exit code, as shells give it."""
    with suppress(OSError):  # nobody reads the errors
        os.write(2, b"\nstopped while it started; nothing was saved\n")
    return 128 + number


def _end_at_start(number: int, frame: FrameType | None) -> None:
    os._exit(stopped_at_start(number))


def _is_under_nohup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


class StopSignals:
    """Within its `with` block, signals only set attributes, which the training loop checks between two updates.

    `requested`: save and stop. `stop_now`: a second signal came; skip what takes long. `save_now`: SIGUSR1 came; who
    saves resets it.
    """

    def __init__(self) -> None:
        self.requested = False
        self.stop_now = False
        self.save_now = False
        self._requested_at = 0.0
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> "StopSignals":
        for number in (*STOP_SIGNALS, signal.SIGUSR1):
            if not _is_under_nohup(number):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():  # at the end of a program, a signal may not change its exit code
            signal.signal(number, signal.SIG_IGN if handler is _end_at_start else handler)

    def request(self) -> None:
        self._requested_at = time.monotonic()  # first: a signal may come between the two
        self.requested = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.save_now = True
        elif not self.requested:
            self.request()
        elif time.monotonic() - self._requested_at > SAME_SIGNAL_SECONDS:
            self.stop_now = True
