"""The results folder: which runs and sweeps it holds, and paths that cannot lead out of it."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from run_files.job_runs import SWEEP_FILE
from run_files.run_folder import CONFIG
from run_files.run_reader import ReadLimits, RunReader

A_RUN = ReadLimits(reports=2000, report_bytes=48 * 1024 * 1024, game_bytes=8 * 1024 * 1024)
MAX_DEPTH = 4  # folders between the results folder and a run; a sweep needs two


def printable(path: Path) -> str:
    """The path as text that can be shown and read back: `%0A` in place of the end of a line."""
    return "".join(
        c if c.isprintable() and c != "%" else quote(c, safe="", errors="surrogateescape") for c in path.as_posix()
    )


class NotThereError(Exception):
    """A name does not lead to a run or a file in the results folder. The message is a sentence for the page."""


def file_stamp(path: Path) -> tuple[float, int] | None:
    """The time and the size of a file: while both stay the same, so does its content. None if it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime, status.st_size


class ResultsFolder:
    """All names are relative to the folder, with slashes, such as `sweep/job/run`. Nothing is ever written to it.

    What a page cannot show, such as the end of a line or a byte that is not UTF-8, is written in a name as `%0A`, and
    `%` itself as `%25`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def inside(self, path: Path) -> bool:
        """Whether the path, with its symbolic links followed, lies in the results folder."""
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a name that the system refuses
            return False

    def place(self, name: str) -> Path:
        """The existing path of this name. Raises NotThereError if it is missing or leads out of the folder."""
        try:
            path = self.path(name).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise NotThereError(
                f"There is no {name or 'such file'} in {printable(self.root)}; it may have been deleted."
            ) from None
        if not path.is_relative_to(self.root):
            raise NotThereError(f"{name} is not in {printable(self.root)}.")
        return path

    def path(self, name: str) -> Path:
        """The path that `name` has made the name of."""
        return self.root / os.fsdecode(unquote_to_bytes(name))

    def run(self, name: str) -> Path:
        """The folder of the run of this name."""
        path = self.place(name)
        if not (path / CONFIG).is_file():
            raise NotThereError(f"{name or printable(self.root)} is not the folder of a run: it has no {CONFIG}.")
        return path

    def sweep(self, name: str) -> Path:
        path = self.place(name)
        if not (path / SWEEP_FILE).is_file():
            raise NotThereError(f"{name or printable(self.root)} is not the folder of a sweep: it has no {SWEEP_FILE}.")
        return path

    def reader(self, folder: Path, names: Collection[str] | None = None, limits: ReadLimits = A_RUN) -> RunReader:
        """What reads the curves of a run as they grow; parents elsewhere are not read."""
        return RunReader(folder, names=names, within=self.inside, limits=limits)

    def name(self, path: Path) -> str:
        return printable(path.relative_to(self.root))

    def find(self) -> tuple[list[Path], list[Path]]:
        """The folders of all runs and of all sweeps. Symbolic links are not followed."""
        runs: list[Path] = []
        sweeps: list[Path] = []
        for folder, is_sweep in self._walk(self.root, MAX_DEPTH):
            (sweeps if is_sweep else runs).append(folder)
        return runs, sweeps

    def _walk(self, folder: Path, depth: int) -> Iterator[tuple[Path, bool]]:
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:  # unreadable, or deleted meanwhile
            return
        names = {entry.name for entry in found}
        if CONFIG in names:
            yield folder, False
            return  # the folders in a run are not runs
        if SWEEP_FILE in names:
            yield folder, True
        for entry in found:
            if depth and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path), depth - 1)
