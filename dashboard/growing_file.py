"""Reads the lines of a file that another process appends to: only new ones, and of very long files only some."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")

PIECE = 4 * 1024 * 1024  # bytes that are read at once
LONGEST_LINE = 1024 * 1024  # a report has some thousand bytes; what is longer is no line of a run


class GrowingFile(Generic[T]):
    """The parsed lines of a file, `rows`, in their order.

    `parse` returns None for a line without a row, and raises ValueError for a line that it cannot read; such lines are
    counted in `broken`. At most
    2 · `most` rows are kept, at even distances, and always the last one. If more than `most_bytes` are new, lines are
    read at `most` evenly spaced places instead of all.
    """

    def __init__(
        self, path: Path, parse: Callable[[bytes], T | None], *, most: int = 4000, most_bytes: int = 48 * 1024 * 1024
    ) -> None:
        self.path = path
        self._parse = parse
        self._most = most
        self._most_bytes = most_bytes
        self._begin()

    def _begin(self) -> None:
        self._kept: list[T] = []
        self._last: T | None = None
        self._every, self._count = 1, 0
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        self.broken = 0
        self.sampled = False  # whether only some lines of the file were read

    @property
    def rows(self) -> list[T]:
        """The kept rows and the newest one."""
        if self._last is None or (self._kept and self._kept[-1] is self._last):
            return self._kept
        return [*self._kept, self._last]

    def refresh(self) -> bool:
        """Read what is new. Returns whether the rows changed. Raises OSError if the file is there but unreadable."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            changed = self._identity is not None
            self._begin()
            return changed
        identity = (status.st_dev, status.st_ino)
        replaced = self._identity is not None and (identity != self._identity or status.st_size < self._offset)
        if replaced:
            self._begin()
        self._identity = identity
        if status.st_size == self._offset:
            return replaced
        with self.path.open("rb") as file:
            lines = self._all_new(file) if self._is_short(status.st_size) else self._some_new(file, status.st_size)
            before = self._count + self.broken
            for line in lines:
                self._take(line)
        return replaced or self._count + self.broken > before

    def _is_short(self, size: int) -> bool:
        return size - self._offset <= self._most_bytes

    def _take(self, line: bytes) -> None:
        try:
            row = self._parse(line)
        except (ValueError, RecursionError):  # the latter from JSON with thousands of brackets
            self.broken += bool(line.strip())
            return
        if row is None:
            return
        self._last = row
        if self._count % self._every == 0:
            self._kept.append(row)
            if len(self._kept) == 2 * self._most:
                self._every *= 2
                self._kept = self._kept[::2]
        self._count += 1

    def _all_new(self, file: BinaryIO) -> Iterator[bytes]:
        """The complete lines after the ones that were read; an incomplete last line stays for the next time."""
        file.seek(self._offset)
        rest = b""
        while piece := file.read(PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > LONGEST_LINE:
                self.broken += 1
                rest = b""
            self._offset = file.tell() - len(rest)
            yield from lines

    def _some_new(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        """Complete lines at even distances, and all of the last ones."""
        self.sampled = True
        end = size - min(PIECE, self._most_bytes) // 4
        step = max(1, (end - self._offset) // self._most)
        for place in range(self._offset, end, step):
            file.seek(max(0, place - 1))
            if place:
                file.readline(LONGEST_LINE)  # the rest of a line
            line = file.readline(LONGEST_LINE)
            if line.endswith(b"\n") and file.tell() <= end:
                yield line[:-1]
        file.seek(end)
        file.readline(LONGEST_LINE)
        self._offset = file.tell()
        yield from self._all_new(file)
