"""Has curves.png redrawn during a run, by a process of its own: the learner never imports matplotlib."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from machine.program import CHECKOUT
from run_files.metrics import Episode, Report
from run_files.run_folder import remove_abandoned

LAST_DRAWING_SECONDS = 10.0  # longest wait for the last drawing at the end of a run: a busy machine is slow
LOWEST_PRIORITY = 19


class CurvesSink:
    """Runs `python -m reports.run_curves`, which looks for new reports until its standard input is closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "reports.run_curves", str(folder.resolve())],
            cwd=CHECKOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # kept for the announcement; it would disturb the live display
            start_new_session=True,  # CTRL+C goes to the learner only, which then has the last drawing made
        )
        with suppress(OSError):  # it has exited already; the next report handles that
            os.setpriority(os.PRIO_PROCESS, self._process.pid, LOWEST_PRIORITY)

    def write(self, report: Report) -> None:
        """Nothing is sent: the process reads the run's files. Raises RuntimeError if it has ended."""
        if self._process.poll() is not None:
            errors = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise RuntimeError(errors[-1] if errors else f"exit code {self._process.returncode}")

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        """Wait for the last drawing, at most LAST_DRAWING_SECONDS, so that CTRL+C ends a run soon."""
        try:
            self._process.communicate(timeout=LAST_DRAWING_SECONDS)  # closes its standard input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            remove_abandoned(self._folder)
