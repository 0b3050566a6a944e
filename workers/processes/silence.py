"""What a parent does about child processes that say nothing for too long."""

import time
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from typing import Protocol

from workers.processes.child_process import where_it_hangs
from workers.processes.interrupts import GRACE_SECONDS, interrupt


class WatchedChild(Protocol):
    """What a parent notes about a child process."""

    silent_since: float
    interrupted_at: float | None  # when it was asked where it hangs


class SilenceLimit:
    """For how long the children of one parent may be silent. After that, they are asked where they hang, and end."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._waited_at = clock()

    @property
    def in_words(self) -> str:
        """What a process did that was silent for longer."""
        return f"did not respond for {self._seconds:g} seconds"

    def hang_in_words(self, process: BaseProcess) -> str:
        """The same of a process that was interrupted, with the place where it hangs, if it could say so."""
        place = where_it_hangs(process)
        return f"{self.in_words}; it hangs here, most recent call first:\n{place}" if place else self.in_words

    def has_waited(self, timeout: float, children: Iterable[WatchedChild]) -> None:
        """Call it after each wait of up to `timeout` seconds, and after receiving what the children have sent.

        The parent may have been stopped since the wait before, and the children too, or it was busy. So of the time
        between two waits, no more than half of the limit counts as silence.
        """
        now = self._clock()
        between, self._waited_at = now - self._waited_at - timeout, now
        excess = between - self._seconds / 2
        if excess > 0:
            for child in children:
                child.silent_since = min(now, child.silent_since + excess)

    def hangs(self, child: WatchedChild, process: BaseProcess) -> bool:
        """Let a silent process say where it hangs. Returns whether it did not end by that, and must be killed."""
        now = self._clock()
        if now - child.silent_since <= self._seconds:
            return False
        if child.interrupted_at is None:
            child.interrupted_at = now
            interrupt(process)
            return False
        return now - child.interrupted_at > GRACE_SECONDS
