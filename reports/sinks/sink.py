"""The interface of report sinks, and sinks that wrap other sinks."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from run_files.metrics import Episode, Report


class Sink(Protocol):
    """Receives the reports and episodes of a run."""

    def write(self, report: Report) -> None: ...

    def episode(self, row: Episode) -> None: ...

    def close(self) -> None: ...


class SinkList:
    """Passes everything to each of its sinks in turn. Without sinks it does nothing."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def write(self, report: Report) -> None:
        for sink in self._sinks:
            sink.write(report)

    def episode(self, row: Episode) -> None:
        for sink in self._sinks:
            sink.episode(row)

    def close(self) -> None:
        """Close all sinks, even if closing one of them fails."""
        with ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(sink.close)


class RetryingSink:
    """Wraps a sink that writes files, so that a full disk does not end the run.

    The wrapped sink keeps what it could not write (some megabytes a day at most) and tries again at the next report.
    The first failure and the recovery are announced once each.
    """

    def __init__(self, sink: Sink, what: str, announce: Callable[[str], None]) -> None:
        self._sink = sink
        self._what = what  # a name in the plural, for messages
        self._announce = announce
        self._outage = False

    def write(self, report: Report) -> None:
        with self._announced("they are kept in memory, and training continues"):
            self._sink.write(report)
            if self._outage:  # everything kept is written now
                self._outage = False
                self._announce(f"{self._what} can be written again; nothing is missing")

    def episode(self, row: Episode) -> None:
        with self._announced("they are kept in memory, and training continues"):
            self._sink.episode(row)

    def close(self) -> None:
        self._outage = False  # what cannot be written now is lost, so it is announced again
        with self._announced("the newest ones are lost"):
            self._sink.close()

    @contextmanager
    def _announced(self, consequence: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._outage:
                self._outage = True
                self._announce(f"{self._what} cannot be written ({error.strerror}); {consequence}")
