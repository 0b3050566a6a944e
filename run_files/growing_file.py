"""Reads a text file to which another process adds lines: its new lines as it grows, or its last lines."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PIECE = 4 * 1024 * 1024  # bytes that are read at once


class NewLines:
    """Gives the complete lines of a file, each once; what is not yet ended by a newline stays for the next `read`.

    A file that was replaced or shortened is read from its beginning; `restarts` counts this. If more than `most_bytes`
    are new, lines are read at `places` even distances instead of all, and `sampled` says so.
    """

    def __init__(self, path: Path, *, most_bytes: float = math.inf, places: int = 4000) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._places = places
        self.restarts = -1
        self._restart(None)

    def _restart(self, identity: tuple[int, int] | None) -> None:
        self._identity = identity  # device and inode of the file; None while there is none
        self._offset = 0
        self.restarts += 1
        self.sampled = False

    def skip(self) -> None:
        """Leave out what is in the file already."""
        if self.path.exists():
            status = self.path.stat()
            self._identity, self._offset = (status.st_dev, status.st_ino), status.st_size

    def read(self) -> Iterator[bytes]:
        """The lines that are new since the last call, without their ends. All of them must be taken.

        Raises OSError if the file is there and cannot be read.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if self._identity is not None:
                self._restart(None)
            return iter(())
        identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity or status.st_size < self._offset:
            self._restart(identity)
        if status.st_size == self._offset:
            return iter(())
        return self._read(self.path.open("rb"), status.st_size)

    def read_text(self) -> list[str]:
        """The same as text; a carriage return also ends a line."""
        return b"\n".join(self.read()).decode("utf-8", errors="replace").splitlines()

    def _read(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        with file:
            yield from self._all_new(file) if size - self._offset <= self._most_bytes else self._some_new(file, size)

    def _all_new(self, file: BinaryIO) -> Iterator[bytes]:
        file.seek(self._offset)
        rest = b""
        while piece := file.read(PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            self._offset = file.tell() - len(rest)
            yield from lines

    def _some_new(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        """Complete lines at even distances, and all of the last ones."""
        self.sampled = True
        end = size - int(min(PIECE, self._most_bytes)) // 4
        step = max(1, (end - self._offset) // self._places)
        for place in range(self._offset, end, step):
            file.seek(max(0, place - 1))
            if place:
                file.readline()  # the rest of a line
            line = file.readline()
            if line.endswith(b"\n") and file.tell() <= end:
                yield line[:-1]
        file.seek(end)
        file.readline()
        self._offset = file.tell()
        yield from self._all_new(file)


def last_lines(path: Path, count: int, most_bytes: int = 256 * 1024) -> list[str]:
    """The last lines of a text file, as a terminal shows them after carriage returns, without control characters."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most_bytes))
        text = file.read(most_bytes).decode("utf-8", errors="replace")
    lines = text.split("\n")[1 if size > most_bytes else 0 :]
    clean = (
        "".join(c for c in line.rstrip("\r").rsplit("\r", 1)[-1] if c.isprintable() or c == "\t") for line in lines
    )
    return [line for line in clean if line.strip()][-count:]
