"""CTRL+C, SIGTERM, a closed terminal and SIGUSR1 as flags that the training loop checks between two updates."""

import signal
import time
from types import FrameType, TracebackType
from typing import Any

from machine.start import end_at_start

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME_SIGNAL_SECONDS = 0.5  # a second signal within this time does not count: a closed terminal sends SIGHUP twice


class StopSignals:
    """Within its `with` block, signals only set attributes.

    `requested`: save and stop. `stop_now`: a second signal came; skip what takes long. `save_now`: SIGUSR1 came; who
    saves resets it.
    """

    def __init__(self) -> None:
        self.requested = False
        self.stop_now = False
        self.save_now = False
        self._requested_at = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        for number in (*STOP_SIGNALS, signal.SIGUSR1):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # started under nohup: the run continues when its terminal closes
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():  # at the end of a program, a signal may not change its exit code
            signal.signal(number, signal.SIG_IGN if handler is end_at_start else handler)

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
