"""The files of a run's numbers: one JSON line per report, one CSV row per finished game. They grow line by line; here
they are written, and read as they grow."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeAlias

from options.environment_options import GAME_COLUMNS
from processes.printed import plain_text

JsonValue: TypeAlias = "float | int | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
Report: TypeAlias = dict[str, JsonValue]

METRICS = "metrics.jsonl"  # files in the run folder: one report per line
EPISODES = "episodes.csv"  # one finished game per row
EVALUATIONS = "evaluations.jsonl"  # one evaluation per line
EPISODES_FLUSH_SECONDS = 1.0
TAIL_BYTES = 256 * 1024  # that are read from the end of a file; a report has about 3,000 bytes
PIECE = 4 * 1024 * 1024  # bytes of a growing file that are read at once


class Episode(NamedTuple):
    """One finished game: its full length, its unclipped return, and what the environment says of it."""

    agent_steps: int
    return_: float
    length: int
    worker: int
    info: Mapping[str, float] = {}


class Sink:
    """Receives the reports and episodes of a run. What a sink does not override, it ignores."""

    def write(self, report: Report) -> None:
        """Called with each report."""

    def episode(self, row: Episode) -> None:
        """Called with each finished game."""

    def close(self) -> None:
        """Called at the end."""


class _LineFile(Sink):
    """Appends lines to a file. What does not fit on a full disk stays in memory, and is written at the next flush."""

    def __init__(self, path: Path) -> None:
        # Unbuffered: a buffer would keep what a full disk refused, and write it again at some later time.
        self._file = FileIO(path, "a")
        self._unwritten = bytearray()

    def _add(self, line: str) -> None:
        self._unwritten += line.encode()

    def _flush(self) -> None:
        while self._unwritten:
            del self._unwritten[: self._file.write(self._unwritten)]

    def close(self) -> None:
        if not self._file.closed:
            try:
                self._flush()
            finally:
                self._file.close()


class JsonLinesSink(_LineFile):
    """Appends each report to `path` as one line of strict JSON.

    Each line is written immediately, so `tail -f` follows the run. A kill leaves at most one incomplete last line.
    """

    def write(self, report: Report) -> None:
        self._add(json.dumps(json_safe(report), allow_nan=False) + "\n")
        self._flush()


class EpisodesCsvSink(_LineFile):
    """Appends each finished game to `path` as a CSV row.

    What the environment says of the first game has columns too; later games fill these.
    Short games end hundreds of times per second, so rows are written together: once per second, at each report and at
    the end.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(path)
        self._clock = clock
        self._columns: list[str] | None = None  # known with the first game
        self._flushed_at = clock()

    def write(self, report: Report) -> None:
        self._flush()

    def episode(self, row: Episode) -> None:
        columns = self._add_header(list(row.info)) if self._columns is None else self._columns
        values = [row.agent_steps, row.return_, row.length, row.worker, *(row.info.get(name, "") for name in columns)]
        self._add(",".join(map(str, values)) + "\n")
        if self._clock() - self._flushed_at >= EPISODES_FLUSH_SECONDS:
            self._flush()

    def close(self) -> None:
        if self._columns is None:
            self._add_header([])
        super().close()

    def _add_header(self, columns: list[str]) -> list[str]:
        self._columns = columns
        self._add(",".join([*GAME_COLUMNS, *columns]) + "\n")
        return columns

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        super()._flush()


def last_report(path: Path) -> Report | None:
    """The newest report, read from the end of the file. Raises ValueError if the last line is not a report."""
    *lines, _incomplete = _tail(path, TAIL_BYTES).split(b"\n")
    return parse_report(lines[-1]) if lines else None


def last_lines(path: Path, count: int, most_bytes: int = TAIL_BYTES) -> list[str]:
    """The last lines of a text file, as plain text, without empty ones."""
    text = plain_text(_tail(path, most_bytes).decode("utf-8", errors="replace"))
    return [line for line in text.split("\n") if line.strip()][-count:]


def _tail(path: Path, most_bytes: int) -> bytes:
    """The end of a file, without a line that begins before it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most_bytes))
        tail = file.read(most_bytes)
    return tail if size <= most_bytes else tail.partition(b"\n")[2]


def parse_report(line: bytes) -> Report:
    """The report in one line. Raises ValueError if it has none."""
    report = json.loads(line)
    if not isinstance(report, dict):
        raise ValueError(f"{line[:80]!r} is no report")
    return report


def json_safe(value: JsonValue) -> JsonValue:
    """The same value with None in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_safe(item) for item in value]
    return value


def flat_numbers(report: Mapping[str, JsonValue]) -> dict[str, float]:
    """All finite numbers of a report, with names like `time_shares/update` and `replays/0_queue/size`.

    The items of a list are named by their index, and by their own name if they have one.
    """
    numbers: dict[str, float] = {}

    def add(name: str, value: JsonValue) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                add(f"{name}/{key}" if name else key, item)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for index, item in enumerate(value):
                own = item.get("name") if isinstance(item, Mapping) else None
                add(f"{name}/{index}_{own}" if isinstance(own, str) else f"{name}/{index}", item)
        elif isinstance(value, int | float) and abs(value) <= sys.float_info.max:  # not so if it is NaN
            numbers[name] = float(value)

    add("", report)
    return numbers


class NewLines:
    """Gives the complete lines of a growing file, each once; an unfinished last line stays for the next `read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def read(self) -> Iterator[bytes]:
        """The lines that are new since the last call, without their ends. All of them must be taken.

        Raises OSError if the file is there and cannot be read.
        """
        size = 0
        with suppress(FileNotFoundError):
            size = self.path.stat().st_size
        if size > self._offset:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                rest = b""
                while piece := file.read(PIECE):
                    *lines, rest = (rest + piece).split(b"\n")
                    self._offset = file.tell() - len(rest)
                    yield from lines

    def read_text(self) -> list[str]:
        """The same as text; a carriage return also ends a line."""
        return b"\n".join(self.read()).decode("utf-8", errors="replace").splitlines()
