"""Where a run's numbers go: one JSON line per report, one CSV row per finished game."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeAlias

JsonValue: TypeAlias = "float | int | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
Report: TypeAlias = dict[str, JsonValue]

EPISODES_FLUSH_SECONDS = 1.0
TAIL_BYTES = 64 * 1024  # read at once from the end of a file; a report takes some three thousand
RENAMED = {"return_mean_100": "return_mean"}  # figures of older runs


class Episode(NamedTuple):
    """One finished game, as it was played: full length, unclipped return."""

    agent_steps: int
    return_: float
    length: int
    worker: int


class JsonLinesSink:
    """Appends each report to `path` as one line of strict JSON. Games are left to other sinks.

    Each line is written at once, so `tail -f` follows the run, and a kill leaves at most a last line without its end.
    """

    def __init__(self, path: Path) -> None:
        self._lines = _LineFile(path)

    def write(self, report: Report) -> None:
        self._lines.add(json.dumps(json_safe(report), allow_nan=False) + "\n")
        self._lines.flush()

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        self._lines.close()


class EpisodesCsvSink:
    """Appends each finished game to `path`; reports only push out the rows that wait.

    Short games end hundreds of times a second, so rows go out together: once a second, at each report and at the end.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines = _LineFile(path)
        if self._lines.is_empty:
            self._lines.add("agent_steps,return,length,worker\n")
        self._flush()

    def write(self, report: Report) -> None:
        self._flush()

    def episode(self, row: Episode) -> None:
        self._lines.add(f"{row.agent_steps},{row.return_},{row.length},{row.worker}\n")
        if self._clock() - self._flushed_at >= EPISODES_FLUSH_SECONDS:
            self._flush()

    def close(self) -> None:
        self._lines.close()

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        self._lines.flush()


class _LineFile:
    """Appends whole lines to a file; those that the disk does not take wait in memory for the next flush."""

    def __init__(self, path: Path) -> None:
        self._file = _open_after_whole_lines(path)
        self._end = self._file.tell()  # of the whole lines in the file
        self._waiting = bytearray()

    @property
    def is_empty(self) -> bool:
        return self._end == 0

    def add(self, line: str) -> None:
        self._waiting += line.encode()

    def flush(self) -> None:
        """Write all that waits, or nothing of it: a disk that fills up on the way would else leave half a line."""
        self._cut_off_torn_line()  # again, should that have failed, too
        written = 0
        try:
            while written < len(self._waiting):
                written += self._file.write(self._waiting[written:])
        except OSError:
            self._cut_off_torn_line()
            raise
        self._end += written
        self._waiting.clear()

    def _cut_off_torn_line(self) -> None:
        if self._file.tell() != self._end:
            self._file.truncate(self._end)
            self._file.seek(self._end)

    def close(self) -> None:
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()


def each_report(path: Path) -> Iterator[Report]:
    """The reports in a metrics file one after another, under the names of today.

    What follows the last line's end was torn by a kill and is left out. Any other line that is not a JSON object raises
    ValueError: no run of ours writes one, so the file is damaged.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):  # nor go on: a live run may finish the line meanwhile
                return
            yield _report(line, f"{path}, line {number}")


def read_metrics(path: Path) -> list[Report]:
    """All of them; those of a long run take gigabytes."""
    return list(each_report(path))


def last_report(path: Path) -> Report | None:
    """The newest report; the others are not looked at."""
    with path.open("rb") as file:
        left, tail = file.seek(0, os.SEEK_END), b""
        # Enough for a whole line between two ends; at the head of the file its begin is as good.
        while left and tail.count(b"\n") < 2:
            size = min(left, TAIL_BYTES)
            left -= size
            file.seek(left)
            tail = file.read(size) + tail
    *lines, _torn = tail.split(b"\n")
    return _report(lines[-1], f"{path}, its last line") if lines else None


def _report(line: bytes, where: str) -> Report:
    try:
        report = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    if not isinstance(report, dict):
        raise ValueError(f"{where} is not a report: {line[:80]!r}")
    for older, name in RENAMED.items():
        if older in report:
            report[name] = report.pop(older)
    return report


def json_safe(value: JsonValue) -> JsonValue:
    """The same value with null for what JSON has no word for: NaN and the infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_safe(item) for item in value]
    return value


def flat_numbers(report: Mapping[str, JsonValue]) -> dict[str, float]:
    """All finite numbers of a report by names like `time_shares/update` and `replays/0_queue/size`.

    What a list holds is named by its place, and by its own name where it has one.
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
        elif isinstance(value, int | float) and math.isfinite(value):
            numbers[name] = float(value)

    add("", report)
    return numbers


def _open_after_whole_lines(path: Path) -> FileIO:
    """Opens `path` for appending, cutting off the torn last line of a killed run.

    Appended to, that line would become a broken one in the middle of the file, which no reader can tell from damage.
    """
    whole = 0
    if path.exists():
        # Line by line, not in one piece: a long run's file is large, and only its last line matters.
        with path.open("rb") as lines:
            whole = sum(len(line) for line in lines if line.endswith(b"\n"))
    # Without a buffer of its own, which would hold back what a full disk refused, and write it again at any time.
    file = FileIO(path, "a")
    file.truncate(whole)
    file.seek(whole)
    return file
