"""CTRL+C, SIGTERM, a closed terminal and SIGUSR1, as wishes that the training loop grants between two updates."""

import signal
import time
from types import FrameType, TracebackType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_WISH_SECONDS = 0.5  # a closed terminal sends SIGHUP twice, once by way of the shell; some programs do with SIGTERM


class StopSignals:
    """While it is entered, signals only leave a word here: stop, hurry (a second time), or save now (SIGUSR1)."""

    def __init__(self) -> None:
        self.requested = False
        self.hurried = False
        self.save_now = False
        self._requested_at = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        for number in (*STOP_SIGNALS, signal.SIGUSR1):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # started under nohup: the run is to outlive its terminal
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.save_now = True
        elif not self.requested:
            self.requested = True
            self._requested_at = time.monotonic()
        elif time.monotonic() - self._requested_at > ONE_WISH_SECONDS:
            self.hurried = True
