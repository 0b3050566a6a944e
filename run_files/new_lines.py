"""Reads a text file that another process writes: its new lines as it grows, or its last lines."""

import os
from pathlib import Path


class NewLines:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes_read = 0

    def skip(self) -> None:
        """Leave out what is in the file already."""
        self._bytes_read = self._path.stat().st_size if self._path.exists() else 0

    def read(self) -> list[str]:
        """Complete lines that were added since the last call."""
        return self.read_bytes().decode("utf-8", errors="replace").splitlines()

    def read_bytes(self) -> bytes:
        """The same, not decoded."""
        if not self._path.exists():
            return b""
        with self._path.open("rb") as file:
            file.seek(self._bytes_read)
            complete = file.read().rpartition(b"\n")[0]
        if complete:
            self._bytes_read += len(complete) + 1
        return complete


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
