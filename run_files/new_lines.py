"""Reads a text file that another process writes, line by line as it grows."""

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
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._bytes_read)
            complete = file.read().rpartition(b"\n")[0]
        if not complete:
            return []
        self._bytes_read += len(complete) + 1
        return complete.decode("utf-8", errors="replace").splitlines()
