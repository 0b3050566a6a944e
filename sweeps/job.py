"""One run of a sweep: a process of main.py, and its folder.

The folder holds a log, and a run folder of main.py for each time that it was started.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from option_flags import Config
from options.command_line import flag_words
from options.rules import UsageError
from run_files.run_folder import CHECKPOINTS, JOB_LOG, newest_first, run_folders

# A run saves and ends when its sweep is killed: Linux then sends it SIGTERM (prctl's PR_SET_PDEATHSIG is 1). A SIGUSR1
# that comes before main.py can save would end it.
FIRST_WORDS = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class Job:
    """A run that has been started on this machine."""

    where = ""  # words for the console, such as " on node a"
    why_lost = ""  # what happened to a run that has ended without an exit code, for the console

    def __init__(self, folder: Path, words: list[str], lock: BinaryIO) -> None:
        with (folder / JOB_LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", FIRST_WORDS, str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock.fileno(),),
                start_new_session=True,  # CTRL+C and a closed terminal reach the sweep, which forwards them
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or if it was lost with its node."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the learner process, which ends its workers itself."""
        self._process.send_signal(number)


class Places:
    """Room for a number of runs at once, here on this machine."""

    def __init__(self, jobs: int, program: Path, lock: BinaryIO) -> None:
        """The runs share the `lock`: it is free when the last of them has ended."""
        self._jobs, self._program, self._lock = jobs, program, lock

    def has_room(self, running: int) -> bool:
        """Whether another run can start while so many are running."""
        return running < self._jobs

    def start(self, folder: Path, flags: Mapping[str, Any]) -> Job:
        """Begin the run of this folder, or continue it, in the room that `has_room` has found."""
        words = [str(self._program), *start_words(resumable(folder)), f"--results_dir={folder}", *flag_words(flags)]
        return Job(folder, words, self._lock)

    @property
    def words(self) -> str:
        """How many runs there are at once, for the console."""
        return str(self._jobs)

    def close(self) -> None:
        """Nothing is held here."""


def start_words(parent: Path | str | None) -> list[str]:
    """The words of main.py that begin a run or, with a parent, continue it."""
    return ["--op_mode=train"] if parent is None else ["--op_mode=train_w_load", f"--load_model_url={parent}"]


def resumable(job_folder: Path) -> Path | None:
    """The run folder to continue from. A run that continues another one begins with its parent's checkpoint."""
    return next((folder for folder in run_folders(job_folder) if newest_first(folder / CHECKPOINTS)), None)


def progress(job_folder: Path, config: Config) -> tuple[int, bool]:
    """The agent steps in the newest checkpoint, and whether it has reached the end of the run.

    A report may be older than it, or count steps that were lost in a kill.
    """
    # Only now: torch takes seconds to load.
    from run_files.checkpoint import find_checkpoint, why_complete  # noqa: PLC0415

    if (folder := resumable(job_folder)) is None:
        return 0, False
    try:
        checkpoint = find_checkpoint(str(folder))
    except UsageError:  # main.py would refuse it
        return 0, False
    return checkpoint.agent_steps, why_complete(config, checkpoint) is not None
