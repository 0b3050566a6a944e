"""What a sink of reports is, and sinks that wrap other sinks."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from run_files.metrics import Episode, Report


class Sink(Protocol):
    """Takes what a run has to tell."""

    def write(self, report: Report) -> None: ...

    def episode(self, row: Episode) -> None: ...

    def close(self) -> None: ...


class SinkList:
    """Hands everything to each of its sinks in turn. With none it is the sink that does nothing."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def write(self, report: Report) -> None:
        for sink in self._sinks:
            sink.write(report)

    def episode(self, row: Episode) -> None:
        for sink in self._sinks:
            sink.episode(row)

    def close(self) -> None:
        """Closes all of them, also where closing one fails."""
        with ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(sink.close)


class OutageProofSink:
    """Hands everything on to a sink, and does not let a disk that is full end the run.

    It says so once, and again when the disk takes what it is given: the sinks keep what waits, some megabytes a day at
    most, and write it then.
    """

    def __init__(self, sink: Sink, what: str, announce: Callable[[str], None]) -> None:
        self._sink = sink
        self._what = what  # in the plural
        self._announce = announce
        self._outage = False

    def write(self, report: Report) -> None:
        with self._announced("they wait in memory, training goes on"):
            self._sink.write(report)
            if self._outage:  # and now all that waited is written, too
                self._outage = False
                self._announce(f"{self._what} can be written again; nothing is missing")

    def episode(self, row: Episode) -> None:
        with self._announced("they wait in memory, training goes on"):
            self._sink.episode(row)

    def close(self) -> None:
        self._outage = False  # what does not reach the file now is lost: worth a word of its own
        with self._announced("the newest ones are lost"):
            self._sink.close()

    @contextmanager
    def _announced(self, so: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._outage:
                self._outage = True
                self._announce(f"{self._what} cannot be written ({error.strerror}); {so}")
