"""One run of a sweep: the process of main.py, its log and its lock."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from options.command_line import flag_words
from run_files.growing_file import NewLines
from run_files.job_runs import JOB_LOG
from sweeps.files import LOCK, is_locked, resumable, try_lock

RESULTS_DIR = "--results_dir="


class Job:
    """One run of a sweep, in its folder. `start` begins or continues it.

    The process of main.py holds the lock of the folder. If a sweep is killed, its jobs go on and keep their locks, so
    the next multi_train.py watches them and does not start them a second time.
    """

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self.log = folder / JOB_LOG
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None  # None if it was not started here
        self._new_lines = NewLines(self.log)
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, flags: Mapping[str, Any]) -> bool:
        """Begin the run, or continue it. False if it is running already; it is then only watched."""
        self._new_lines.skip()
        lock = try_lock(self._lock_path)
        if lock is None:
            return False
        parent = resumable(self.folder)
        mode = ["--op_mode=train"] if parent is None else ["--op_mode=train_w_load", f"--load_model_url={parent}"]
        words = [*mode, f"{RESULTS_DIR}{self.folder}", *flag_words(flags)]
        with lock, self.log.open("ab") as log:
            self._process = self._popen([sys.executable, str(self._program), *words], lock, log)
        return True

    @staticmethod
    def _popen(command: Sequence[str], lock: BinaryIO, log: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the process in its own session: CTRL+C and a closed terminal reach the sweep, which forwards them.

        It inherits that SIGUSR1 is ignored, which would kill it until main.py handles it.
        """
        before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock.fileno(),),
                start_new_session=True,
            )
        finally:
            signal.signal(signal.SIGUSR1, before)

    @property
    def is_running(self) -> bool:
        """Whether its process runs, whoever started it."""
        return is_locked(self._lock_path) if self._process is None else self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None for a process that still runs or was not started here."""
        return None if self._process is None else self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the learner process, which ends its workers itself."""
        if self._process is not None:
            self._process.send_signal(number)
            return
        for process in self._find_learners():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def new_log_lines(self) -> list[str]:
        """Complete lines that were added to the log since the last call."""
        return self._new_lines.read_text()

    @property
    def why_lost(self) -> str:
        return "it has stopped"  # its process was not started here, so the reason is not known

    @property
    def where(self) -> str:
        return ""

    @property
    def _lock_path(self) -> Path:
        return self.folder / LOCK

    def _find_learners(self) -> list[psutil.Process]:
        """Processes of main.py for this folder that were not started here, found by their command lines."""
        processes = psutil.process_iter(["cmdline"])
        return [process for process in processes if self._is_learner(process.info["cmdline"] or ())]

    def _is_learner(self, words: Sequence[str]) -> bool:
        if str(self._program) not in words:
            return False
        folders = [Path(word.removeprefix(RESULTS_DIR)) for word in words if word.startswith(RESULTS_DIR)]
        return self.folder.resolve() in [folder.resolve() for folder in folders]  # it may be spelled differently
