"""The run folders of a job, and which of them counts.

A job is one run of a sweep. Its folder holds a run folder of main.py for each time that it was started.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from run_files.metrics import METRICS, Report, last_report
from run_files.run_folder import CHECKPOINTS, CONFIG, numbered_checkpoints

SWEEP_FILE = "sweep.json"  # in the folder of a sweep, beside the folders of its jobs
JOB_LOG = "log.txt"  # in the folder of a job


def is_job(folder: Path) -> bool:
    """Whether this is the folder of a sweep's job."""
    return (folder.resolve().parent / SWEEP_FILE).is_file()


def run_folders(job_folder: Path) -> list[Path]:
    """The run folders of a job. The one with the most updates comes first; of equals, the newest.

    The time of a file alone is not enough: a clock may be set back, or the files may be a copy.
    """
    found = {
        path.parent: (_newest_checkpoint(path.parent), path.stat().st_mtime_ns)
        for path in job_folder.glob(f"*/{CONFIG}")
    }
    return sorted(found, key=lambda folder: found[folder], reverse=True)


def report_of_job(
    job_folder: Path, on_damage: Callable[[Path, ValueError], None] = lambda path, error: None
) -> tuple[Path, Report] | None:
    """The run folder with the job's result, and its newest report. A damaged last line counts as no report."""
    for folder in run_folders(job_folder):
        path = folder / METRICS
        try:
            report = last_report(path) if path.exists() else None
        except ValueError as error:
            on_damage(path, error)
            continue
        if report is not None:
            return folder, report
    return None


def run_of_job(job_folder: Path) -> Path | None:
    """The run folder whose reports are the job's result: the first that has any, or else the first.

    A start that was killed before its first checkpoint could not be gone on with, so it is no part of this run.
    """
    newest = None
    with suppress(OSError):  # a folder has just been removed
        newest = report_of_job(job_folder)
    return next(iter(run_folders(job_folder)), None) if newest is None else newest[0]


def _newest_checkpoint(run_folder: Path) -> str:
    """Its name, in which the number of updates has leading zeros."""
    return next((path.name for path in numbered_checkpoints(run_folder / CHECKPOINTS)), "")
