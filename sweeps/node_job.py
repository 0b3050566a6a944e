"""One run on a node of a Ray cluster: the object that its actor owns."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cluster.guarded_program import GuardedProgram

RESULTS = "results"  # of a run, in its temporary folder


class Stamp(NamedTuple):
    """By which one sees that a file has changed."""

    size: int
    modified: int  # nanoseconds
    inode: int


class NodeJob(GuardedProgram):
    """A run in a temporary folder of its node: its files are sent, read and removed from afar."""

    def __init__(self, uses_gpus: bool) -> None:
        super().__init__("rl_sweep_", uses_gpus)
        self._files = self._folder / RESULTS
        self._files.mkdir()

    def folder(self) -> str:
        """Where the run's files are."""
        return str(self._files)

    def write(self, name: str, offset: int, content: bytes) -> None:
        """Write a part of a file; the parts come in order."""
        path = self._files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(content)

    def start(self, program: str, words: list[str]) -> None:
        """Start the program of the checkout in the temporary folder, so that `words` have no path of this node."""
        log = self._files / "log.txt"
        self.start_program([program, *words], self._folder, (log, log), {}, seconds_to_end=0.0)

    def state(self) -> tuple[int | None, dict[str, Stamp]]:
        """The exit code, or None while it runs; then all files, as they were not before that."""
        code, stamps = self.exit_code(), dict[str, Stamp]()
        for folder, _, names in os.walk(self._files):
            for path in (Path(folder, name) for name in names if not name.endswith(".tmp")):
                with suppress(FileNotFoundError):  # removed meanwhile
                    if not path.is_symlink():
                        stamps[str(path.relative_to(self._files))] = _stamp(path.stat())
        return code, stamps

    def read(self, name: str, stamp: Stamp | None, offset: int, count: int) -> bytes | None:
        """A part of a file. None if the file has changed since it had this stamp; without one, it may change."""
        try:
            with (self._files / name).open("rb") as file:
                if stamp is not None and _stamp(os.fstat(file.fileno())) != stamp:
                    return None
                file.seek(offset)
                return file.read(count)
        except FileNotFoundError:
            return None


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)
