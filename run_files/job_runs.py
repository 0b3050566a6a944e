"""The run folders of a job, and which of them counts.

A job is one run of a sweep. Its folder holds a run folder of main.py for each time that it was started.
"""

from pathlib import Path

from run_files.metrics import last_report
from run_files.run_folder import CHECKPOINTS, numbered_checkpoints

SWEEP_FILE = "sweep.json"  # in the folder of a sweep, beside the folders of its jobs


def is_job(folder: Path) -> bool:
    """Whether this is the folder of a sweep's job."""
    return (folder.resolve().parent / SWEEP_FILE).is_file()


def run_folders(job_folder: Path) -> list[Path]:
    """The run folders of a job. The one with the most updates comes first; of equals, the newest.

    The time of a file alone is not enough: a clock may be set back, or the files may be a copy.
    """
    found = {
        path.parent: (_newest_checkpoint(path.parent), path.stat().st_mtime_ns)
        for path in job_folder.glob("*/config.json")
    }
    return sorted(found, key=lambda folder: found[folder], reverse=True)


def run_of_job(job_folder: Path) -> Path | None:
    """The run folder whose reports are the job's result: the first that has any, or else the first.

    A start that was killed before its first checkpoint could not be gone on with, so it is no part of this run.
    """
    folders = run_folders(job_folder)
    return next((folder for folder in folders if _has_report(folder)), next(iter(folders), None))


def _newest_checkpoint(run_folder: Path) -> str:
    """Its name, in which the number of updates has leading zeros."""
    return next((path.name for path in numbered_checkpoints(run_folder / CHECKPOINTS)), "")


def _has_report(run_folder: Path) -> bool:
    """A file with a damaged last line counts as one without reports."""
    try:
        return last_report(run_folder / "metrics.jsonl") is not None
    except (OSError, ValueError):
        return False
