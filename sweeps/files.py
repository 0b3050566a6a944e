"""What the files of a sweep's run tell: how far it is, what it can go on from, whether somebody still works on it.

A run's folder holds a log, a lock, and the run folders of main.py: one for each time that it was started.
"""

import fcntl
from pathlib import Path
from typing import BinaryIO

from options.rules import UsageError
from run_files.metrics import Report
from run_files.metrics import last_report as newest
from run_files.run_folder import CHECKPOINTS

LAST_LINES = 5


def run_folders(place: Path) -> list[Path]:
    """The folders of main.py in a run's place, the one that is furthest first, of equals the newest.

    A time alone may lie: a clock was set back, or the files are a copy.
    """
    made = {
        path.parent: (_newest_checkpoint(path.parent), path.stat().st_mtime_ns) for path in place.glob("*/config.json")
    }
    return sorted(made, key=lambda folder: made[folder], reverse=True)


def _newest_checkpoint(folder: Path) -> str:
    """Its name, in which the updates have leading zeros."""
    return max((path.name for path in (folder / CHECKPOINTS).glob("checkpoint_*.pt")), default="")


def last_report(place: Path) -> tuple[Path, Report] | None:
    """The newest line of metrics, and its folder."""
    for folder in run_folders(place):
        path = folder / "metrics.jsonl"
        report = newest(path) if path.exists() else None
        if report is not None:
            return folder, report
    return None


def agent_steps(place: Path) -> int:
    """How far the run has come by its newest checkpoint; a report may be older, or of steps that a kill has undone."""
    from run_files.checkpoint import find_checkpoint  # noqa: PLC0415  # only now: torch takes seconds to load

    folder = resumable(place)
    if folder is None:
        return 0
    try:
        return find_checkpoint(str(folder)).agent_steps
    except UsageError:
        return 0  # main.py will say what is wrong with it


def resumable(place: Path) -> Path | None:
    """The folder to go on from; one that goes on begins with its parent's checkpoint."""
    return next((folder for folder in run_folders(place) if any((folder / CHECKPOINTS).glob("*.pt"))), None)


def last_lines(log: Path) -> list[str]:
    """How a log ends."""
    if not log.exists():
        return []
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if line.strip()][-LAST_LINES:]


def try_lock(path: Path) -> BinaryIO | None:
    """The open file, locked for this process and for every child that it is handed to; None while others hold it.

    The system lets go of the lock with the last process that has the file open, however that ends.
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
