"""Where a run's numbers go: one JSON line per report, one CSV row per finished game."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias

JsonValue: TypeAlias = "float | int | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
Report: TypeAlias = dict[str, JsonValue]

EPISODES_FLUSH_SECONDS = 1.0


class Episode(NamedTuple):
    """One finished game, as it was played: full length, unclipped return."""

    agent_steps: int
    return_: float
    length: int
    worker: int


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


class JsonLinesSink:
    """Appends each report to `path` as one line of strict JSON. Games are left to other sinks.

    Each line is flushed, so `tail -f` follows the run, and a kill leaves at most a last line without its end.
    """

    def __init__(self, path: Path) -> None:
        self._file = _open_after_whole_lines(path)

    def write(self, report: Report) -> None:
        line = json.dumps(json_safe(report), allow_nan=False)
        self._file.write(f"{line}\n".encode())
        self._file.flush()

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        self._file.close()


class EpisodesCsvSink:
    """Appends each finished game to `path`; reports only push out the rows that wait.

    Short games end hundreds of times a second, so rows go out together: once a second, at each report and at the end.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file = _open_after_whole_lines(path)
        self._waiting: list[str] = [] if self._file.tell() else ["agent_steps,return,length,worker\n"]
        self._flush()

    def write(self, report: Report) -> None:
        self._flush()

    def episode(self, row: Episode) -> None:
        self._waiting.append(f"{row.agent_steps},{row.return_},{row.length},{row.worker}\n")
        if self._clock() - self._flushed_at >= EPISODES_FLUSH_SECONDS:
            self._flush()

    def close(self) -> None:
        if not self._file.closed:
            self._flush()
            self._file.close()

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        self._file.write("".join(self._waiting).encode())
        self._file.flush()
        self._waiting.clear()


def read_metrics(path: Path) -> list[Report]:
    """The reports in a metrics file. What follows the last line's end was torn by a kill and is left out.

    Any other line that is not a JSON object raises ValueError: no run of ours writes one, so the file is damaged.
    """
    reports: list[Report] = []
    *lines, _torn = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            report = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(report, dict):
            raise ValueError(f"{path}, line {number} is not a report: {line[:80]!r}")
        reports.append(report)
    return reports


def json_safe(value: JsonValue) -> JsonValue:
    """The same value with null for what JSON has no word for: NaN and the infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_safe(item) for item in value]
    return value


def _open_after_whole_lines(path: Path) -> BinaryIO:
    """Opens `path` for appending, cutting off the torn last line of a killed run.

    Appended to, that line would become a broken one in the middle of the file, which no reader can tell from damage.
    """
    file = path.open("a+b")
    file.seek(0)
    # Line by line, not in one piece: a long run's file is large, and only its last line matters.
    whole = sum(len(line) for line in file if line.endswith(b"\n"))
    file.truncate(whole)
    file.seek(whole)
    return file
