"""The folder of a run, and atomic writing of its files; and which of a job's run folders has its result."""

import errno
import fcntl
import json
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from run_files.metrics import METRICS, Report, last_report

CHECKPOINTS = "checkpoints"  # folders in a run's folder
VIDEOS = "videos"
LOGS = "logs"  # of what the child processes print
CONFIG = "config.json"  # files in it
SUMMARY = "summary.json"
MESSAGES = "messages.txt"  # of the console
SWEEP_FILE = "sweep.json"  # in the folder of a sweep, beside the folders of its jobs
JOB_LOG = "log.txt"  # in the folder of a job
BEST = "best.pt"
# The names that the platform gives, by the number of updates. Copies that a user has made have others, and stay.
NUMBERED_CHECKPOINTS, NUMBERED_REPLAYS = f"checkpoint_{'[0-9]' * 10}.pt", f"replays_{'[0-9]' * 10}.bin"
RANDOM_BYTES = 6  # in the name of a temporary file


def create_run_folder(results_dir: Path, env: str, now: float, run_name: str | None = None) -> Path:
    """Make and return the folder `<results_dir>/<env>_<unix time>`, or `<run name>_<env>_<unix time>` in it.

    `_2`, `_3`, … is appended if that is taken.

    Two runs never share a folder, because mkdir fails if it exists. Raises OSError if `results_dir` cannot be written.
    """
    results_dir.mkdir(parents=True, exist_ok=True)
    env = re.sub("[/:]", "-", env)  # ids may contain a slash or a colon: ALE/Pong-v5, module:Id-v0
    name = "_".join(filter(None, (run_name, env, str(int(now)))))
    folder, number = results_dir / name, 1
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
            _sync_folder(results_dir)
            return folder
        number += 1
        folder = results_dir / f"{name}_{number}"


def numbered_checkpoints(folder: Path) -> list[Path]:
    """The newest first."""
    return sorted(folder.glob(NUMBERED_CHECKPOINTS), reverse=True)


def newest_first(folder: Path) -> list[Path]:
    """The numbered checkpoints of a folder, or the best one if there are no numbered ones."""
    return numbered_checkpoints(folder) or sorted(folder.glob(BEST))


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write the file `path` so that it is always either the old file or the complete new one.

    `content` is the bytes, or a function that writes them to an open file. If the function raises, the old file stays,
    the temporary file is removed and the exception is raised again. A process that is killed while it writes leaves a
    file `.<name>.<random>.tmp`, which `remove_abandoned` removes.
    """
    # Not tempfile.mkstemp, because its files can only be read by their owner, also after the rename.
    temporary = temporary_beside(path)
    try:
        with temporary.open("xb") as file:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)  # keeps `remove_abandoned` from removing it
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            # Without the sync, a power failure can keep the rename but lose the content.
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # CTRL+C as well
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def temporary_beside(path: Path) -> Path:
    """A new name for a temporary file in the folder of `path`. `remove_abandoned` recognises such names."""
    return path.with_name(f".{path.name}.{secrets.token_hex(RANDOM_BYTES)}.tmp")


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of killed writers. Files that a running process is writing are locked and stay."""
    for path in folder.glob(f".*.{'[0-9a-f]' * 2 * RANDOM_BYTES}.tmp"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write `value` atomically as indented JSON, keys in the given order. NaN and infinity raise ValueError."""
    # Encoded before the file is opened, so that a value that is not JSON changes nothing on the disk.
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    # File names may contain bytes that are not UTF-8; escaped, they are still valid JSON.
    write_atomically(path, f"{text}\n".encode(errors="backslashreplace"))


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file. None if there is none that a run could have written."""
    with suppress(OSError, ValueError, RecursionError):
        value = json.loads(path.read_bytes())
        if isinstance(value, dict):
            # Bytes of file names that are not UTF-8 are lone surrogates in Python, which cannot be encoded.
            text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
            return dict(json.loads(text))
    return None


def read_config(folder: Path) -> dict[str, Any] | None:
    """The content of the run's config.json. None if there is none, or if no run wrote it."""
    config = read_json(folder / CONFIG) or {}
    of_a_run = isinstance(config.get("options"), dict) and isinstance(config.get("machine"), dict | None)
    return config if of_a_run else None


def _sync_folder(folder: Path) -> None:
    """Make sure that new names in `folder` survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems can only sync files
            raise
    finally:
        os.close(descriptor)


# --- A job is one run of a sweep: its folder holds a run folder of main.py for each time that it was started ----------


def is_job(folder: Path) -> bool:
    """Whether this is the folder of a sweep's job."""
    return (folder.resolve().parent / SWEEP_FILE).is_file()


def run_folders(job_folder: Path) -> list[Path]:
    """The run folders of a job. The one with the most updates comes first; of equals, the newest.

    The time of a file alone is not enough: a clock may be set back, or the files may be a copy.
    """

    def newest_checkpoint(folder: Path) -> str:  # its name, in which the number of updates has leading zeros
        return next((path.name for path in numbered_checkpoints(folder / CHECKPOINTS)), "")

    starts = [
        (newest_checkpoint(path.parent), path.stat().st_mtime_ns, path) for path in job_folder.glob(f"*/{CONFIG}")
    ]
    return [path.parent for _, _, path in sorted(starts, reverse=True)]


def report_of_job(job_folder: Path) -> tuple[Path, Report] | None:
    """The run folder with the job's result, and its newest report. A damaged last line counts as no report."""
    for folder in run_folders(job_folder):
        with suppress(FileNotFoundError, ValueError):
            report = last_report(folder / METRICS)
            if report is not None:
                return folder, report
    return None


def run_of_job(job_folder: Path) -> Path | None:
    """The run folder whose reports are the job's result: the first that has any, or else the first.

    A start that was killed before its first checkpoint could not be gone on with, so it is no part of this run.
    """
    with suppress(OSError):  # a folder has just been removed
        newest = report_of_job(job_folder)
        return next(iter(run_folders(job_folder)), None) if newest is None else newest[0]
    return None
