"""Has curves.png drawn: a sink that tells a process of its own, and waits for nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from run_files.metrics import Episode, Report
from run_files.run_folder import remove_abandoned

LAST_DRAWING_SECONDS = 2.0  # that the end of a run waits for its last picture
LOWEST_PRIORITY = 19
NEW_REPORT, LAST_WORD = b"r", b"e"
CHECKOUT = Path(__file__).resolve().parents[1]


class CurvesSink:
    """Lets a process at the lowest priority draw what the run's files say, again after each report.

    A process that is killed is replaced at the next report; one that fails says why, and is not.
    """

    def __init__(self, folder: Path, announce: Callable[[str], None]) -> None:
        self._folder = folder.resolve()
        self._announce = announce
        self._process: subprocess.Popen[bytes] | None = self._started()

    def write(self, report: Report) -> None:
        self._replace_if_killed()
        self._tell(NEW_REPORT)

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        """Give the last picture a moment, not more: CTRL+C is to end a run at once."""
        self._tell(LAST_WORD)
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(LAST_DRAWING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            remove_abandoned(self._folder)
        _close_pipes(process)

    def _started(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "reports.curves_process", str(self._folder)],
            cwd=CHECKOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # what it has to say would spoil the live display
            bufsize=0,
            start_new_session=True,  # CTRL+C is for the learner, which then asks for the last picture
        )
        with suppress(OSError):  # it has ended already, which the next report notices
            os.setpriority(os.PRIO_PROCESS, process.pid, LOWEST_PRIORITY)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _tell(self, word: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            # A pipe that is full holds the same word a thousand times; a broken one is looked after at the next report.
            with suppress(BlockingIOError, BrokenPipeError):
                self._process.stdin.write(word)

    def _replace_if_killed(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        process, self._process = self._process, None
        said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
        _close_pipes(process)
        if process.returncode < 0:
            self._process = self._started()
        else:
            reason = said.splitlines()[-1] if said else f"exit code {process.returncode}"
            self._announce(f"curves.png is drawn no more ({reason}); training goes on")


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stderr):
        if pipe is not None:
            pipe.close()
