"""The sink that requests a new curves.png after each report. A separate process draws it."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from machine.program import CHECKOUT
from run_files.metrics import EVALUATIONS, Episode, Report
from run_files.run_folder import remove_abandoned

FILE = "curves.png"
LAST_DRAWING_SECONDS = 10.0  # longest wait for the last drawing at the end of a run: a busy machine is slow
LOWEST_PRIORITY = 19
NEW_REPORT, LAST_REQUEST = b"r", b"e"


class CurvesSink:
    """Starts a process of the lowest priority, which redraws curves.png from the run's files after each report.

    If the process is killed, the next report replaces it. If it fails, the reason is announced once, and nothing is
    drawn from then on.
    """

    def __init__(self, folder: Path, announce: Callable[[str], None]) -> None:
        self._folder = folder.resolve()
        self._announce = announce
        self._process: subprocess.Popen[bytes] | None = self._start()

    def write(self, report: Report) -> None:
        self._replace_if_killed()
        self._request(NEW_REPORT)

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        """Wait for the last drawing, at most LAST_DRAWING_SECONDS, so that CTRL+C ends a run soon."""
        if (self._folder / EVALUATIONS).exists():  # the last evaluation may have ended after the last report
            self._request(NEW_REPORT)
        self._request(LAST_REQUEST)
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

    def _start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "reports.sinks.curves_process", str(self._folder)],
            cwd=CHECKOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # kept for the announcement; it would disturb the live display
            bufsize=0,
            start_new_session=True,  # CTRL+C goes to the learner only, which then requests the last drawing
        )
        with suppress(OSError):  # it has exited already; the next report handles that
            os.setpriority(os.PRIO_PROCESS, process.pid, LOWEST_PRIORITY)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _request(self, kind: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            # What a full pipe does not take, it holds many times already. A broken one is handled at the next report.
            with suppress(BrokenPipeError):
                self._process.stdin.write(kind)

    def _replace_if_killed(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        process, self._process = self._process, None
        errors = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
        _close_pipes(process)
        if process.returncode < 0:
            self._process = self._start()
        else:
            reason = errors.splitlines()[-1] if errors else f"exit code {process.returncode}"
            self._announce(f"curves.png is no longer drawn ({reason}); training continues")


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stderr):
        if pipe is not None:
            pipe.close()
