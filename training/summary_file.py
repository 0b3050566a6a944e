"""`summary.json`: how far a run is, how it ended, and how it goes on."""

import math
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agents.learner import Learner
from option_flags import Config
from reports.run_summary import go_on_command, goal_reached
from run_files.checkpoint import checkpoint_to_use
from run_files.metrics import Episode, Report, json_safe
from run_files.run_folder import CHECKPOINTS, SUMMARY, write_json
from training.best_so_far import BestSoFar
from training.counters.progress import Progress

LEAST_SECONDS = 1.0  # between two reports that rewrite the file
ALIVE_SECONDS = 60.0  # between two times that a run without reports rewrites it: who is silent for long counts as lost
ENERGY = {"cpu": "cpu_watt_hours", "gpu": "gpu_watt_hours"}  # in reports, where the system tells them


class SummaryFile:
    """Writes `summary.json` atomically: on entering and leaving its `with` block, and after reports, as a sink.

    Each time, the file is synced to the disk, which may take longer than the training between two reports of a fast
    environment. So reports that come soon after it was written leave it as it is.

    An error that leaves the block is recorded as the reason why the run failed. A file that cannot be written is tried
    again at the next report.
    """

    def __init__(self, folder: Path, config: Config, progress: Progress, updates: int, best: BestSoFar) -> None:
        """`updates` are those at the start: the learner, which counts them, may fail to start."""
        self._finished = False
        self._seconds: float | None = None  # of training, once it has ended
        self._folder = folder
        self._config = config
        self._progress = progress
        self._updates = updates
        self.learner: Learner | None = None
        self._best = best
        self._energy: dict[str, Any] = {}
        self._written_at = -math.inf

    def __enter__(self) -> Self:
        self.update()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._write("failed", str(error) or type(error).__name__)
        elif self._finished:
            self._write("finished", self._why_finished())
        else:
            self._write("stopped", "a signal asked the run to stop")

    def training_ended(self, finished: bool) -> None:
        """What is written on leaving the block: later evaluations of the policy do not count as training time."""
        self._finished, self._seconds = finished, self._progress.seconds

    def write(self, report: Report) -> None:
        self._energy = {name: report[key] for name, key in ENERGY.items() if report.get(key) is not None}
        if time.monotonic() - self._written_at >= LEAST_SECONDS:
            self.update()

    def update(self) -> None:
        """Write the file of a run that goes on; also when a checkpoint was written, which it names."""
        self._write("running", None)
        self._written_at = time.monotonic()

    def show_alive(self) -> None:
        """Called again and again while the run waits for an evaluation, and makes no reports."""
        if time.monotonic() - self._written_at >= ALIVE_SECONDS:
            self.update()

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        pass

    def _why_finished(self) -> str:
        if self._progress.goal_reached:
            return goal_reached(self._config.run.stop_at_return, self._progress.return_window)
        steps = f"--environment_max_steps={self._config.run.environment_max_steps}"
        return f"a learner has used its share of {steps}" if self._progress.steps_left else f"{steps} is reached"

    def _write(self, status: str, why: str | None) -> None:
        progress, best = self._progress, self._best
        checkpoint = checkpoint_to_use(self._folder / CHECKPOINTS)
        steps, steps_left = progress.agent_steps, progress.steps_left
        seconds = progress.seconds if self._seconds is None else self._seconds
        summary: dict[str, Any] = {
            "status": status,
            "why": why,
            "time": time.time(),
            "agent_steps": steps,
            "frames": progress.frames,
            "updates": self._updates if self.learner is None else self.learner.updates,
            "episodes": progress.episodes,
            "seconds": seconds,
            "steps_per_second": steps / max(seconds, 1e-9),
            "return_mean": progress.return_mean,
            "return_max": progress.return_max,
            "best_return_mean": best.return_mean,
            "best_at_agent_steps": best.return_steps,
            "best_eval_return_mean": best.eval_mean,
            **({"energy_wh": self._energy} if self._energy else {}),
            "checkpoint": checkpoint and str(checkpoint.relative_to(self._folder)),
            "go_on": checkpoint and go_on_command(self._folder, steps, self._config.steps_to_learn, steps_left),
        }
        with suppress(OSError):
            write_json(self._folder / SUMMARY, json_safe(summary))


class NoSummary(SummaryFile):
    """For learners whose run has its summary from another one."""

    def _write(self, status: str, why: str | None) -> None:
        pass
