"""One run of a sweep at work: the process of main.py, its log, and its lock."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from sweeps.files import resumable, try_lock


class Job:
    """A run that is at work now: started here, or found at work.

    The process itself holds its run's lock. So a run whose sweep was killed is at work for as long as its lock is
    held, and is never started a second time beside itself.
    """

    def __init__(self, place: Path, program: Path) -> None:
        self.place = place
        self.log = place / "log.txt"
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None  # None while it is not ours
        self._told = 0  # bytes of the log that `news` has returned
        place.mkdir(parents=True, exist_ok=True)

    def start(self, flags: Mapping[str, Any]) -> bool:
        """Begin the run, or go on with it; False where it is at work already, and only watched from here."""
        self._told = self.log.stat().st_size if self.log.exists() else 0
        lock = try_lock(self.place / "lock")
        if lock is None:
            return False
        parent = resumable(self.place)
        mode = ["--op_mode=train"] if parent is None else ["--op_mode=train_w_load", f"--load_model_url={parent}"]
        words = [*mode, f"--results_dir={self.place}", *flag_words(flags)]
        with lock, self.log.open("ab") as log:
            self._process = self._popen([sys.executable, str(self._program), *words], lock, log)
        return True

    @staticmethod
    def _popen(command: Sequence[str], lock: BinaryIO, log: BinaryIO) -> subprocess.Popen[bytes]:
        """In a session of its own: CTRL+C and a closed terminal are for the sweep, which tells its runs."""
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        if self._process is not None:
            return self._process.poll() is not None
        lock = try_lock(self.place / "lock")
        if lock is not None:
            lock.close()
        return lock is not None

    @property
    def exit_code(self) -> int | None:
        """None for one that was not started here."""
        return None if self._process is None else self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Tell the learner alone; it looks after its workers."""
        if self._process is not None:
            self._process.send_signal(number)
            return
        for process in self._learners_found_by_name():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _learners_found_by_name(self) -> list[psutil.Process]:
        words = {str(self._program), f"--results_dir={self.place}"}
        return [process for process in psutil.process_iter(["cmdline"]) if words <= set(process.info["cmdline"] or ())]

    def news(self) -> list[str]:
        """Whole lines that came into the log since the last call."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(self._told)
            whole = file.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self._told += len(whole) + 1
        return whole.decode("utf-8", errors="replace").splitlines()


def flag_words(flags: Mapping[str, Any]) -> list[str]:
    """As main.py takes them; what is None is left out."""
    words = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no{name}")
        elif value is not None:
            words.append(f"--{name}={value}")
    return words
