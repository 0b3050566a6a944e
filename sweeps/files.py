"""Reads from the files of a sweep's job how far it is, what it can continue from, and whether it is still running.

A job is one run of a sweep. Its folder holds a log, a lock, and a run folder of main.py for each time that it was
started.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from option_flags import Config
from options.rules import UsageError
from run_files.job_runs import run_folders
from run_files.metrics import METRICS
from run_files.run_folder import CHECKPOINTS, newest_first

if TYPE_CHECKING:
    from run_files.checkpoint import Checkpoint

LOCK = "lock"  # held as long as the run is running


class DamagedFiles:
    """Says once of each damaged file of metrics that a report in it is left out."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line
        self._said: set[Path] = set()

    def add(self, path: Path, error: ValueError) -> None:
        if path not in self._said:
            self._said.add(path)
            self._print_line(f"{error}; this report is left out")


def has_reports(job_folder: Path) -> bool:
    return any(path.stat().st_size for path in job_folder.glob(f"*/{METRICS}"))


def agent_steps(job_folder: Path) -> int:
    """Agent steps in the newest checkpoint. A report may be older, or count steps that were lost in a kill."""
    checkpoint = _newest(job_folder)
    return 0 if checkpoint is None else checkpoint.agent_steps


def is_complete(job_folder: Path, config: Config) -> bool:
    """Whether the newest checkpoint has reached the end of the run."""
    from run_files.inherited_options import why_complete  # noqa: PLC0415  # only now: torch takes seconds to load

    checkpoint = _newest(job_folder)
    return checkpoint is not None and why_complete(config, checkpoint) is not None


def _newest(job_folder: Path) -> "Checkpoint | None":
    """The newest checkpoint. None if there is none, or if main.py would refuse it."""
    from run_files.checkpoint import find_checkpoint  # noqa: PLC0415

    folder = resumable(job_folder)
    if folder is None:
        return None
    try:
        return find_checkpoint(str(folder))
    except UsageError:
        return None


def resumable(job_folder: Path) -> Path | None:
    """The run folder to continue from. A run that continues another one begins with its parent's checkpoint."""
    return next((folder for folder in run_folders(job_folder) if newest_first(folder / CHECKPOINTS)), None)


def try_lock(path: Path) -> BinaryIO | None:
    """The open file, locked for this process and for each child that inherits it. None if another process holds it.

    The system releases the lock when the last process that has the file open ends, however it ends.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # some network file systems have no locks
        pass
    return file


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock."""
    if not path.exists():
        return False
    lock = try_lock(path)
    if lock is not None:
        lock.close()
    return lock is None
