"""A training run as an object: what its parts share."""

from pathlib import Path
from typing import Literal

from agents.learner import Learner
from learners.agreement import Agreement, GroupAgreement
from learners.group import LearnerGroup
from machine.stop_signals import StopSignals
from replay.batch_mix import Mix
from reports.terminal.console import Console
from training.counters.clock_timing import make_timing
from training.counters.progress import Progress
from training.run_setup import RunSetup
from workers.actors import Actors

Status = Literal["running", "finished", "stopped", "failed"]


class Run:
    """A run that is checked and has a folder. What reports, saves, evaluates or sums it up takes it as a whole.

    `train` adds the learner, the mix of the replays and the actors, in this order.
    """

    learner: Learner
    mix: Mix
    actors: Actors

    def __init__(self, setup: RunSetup, folder: Path, stop: StopSignals, console: Console) -> None:
        self.setup = setup
        self.config, self.part = setup.config, setup.part
        self.layout, self.machine, self.resume = setup.layout, setup.machine, setup.resume
        self.learners, self.rank = setup.learners, setup.learners.rank
        self.folder = folder
        self.stop = stop
        self.console = console
        self.announce = console.message  # prints a sentence, and keeps it in the run's folder
        self.status: Status = "running"
        self.last_lines: list[str] = []  # filled when training has ended; printed after all other messages
        # With the other learners. One learner agrees with itself.
        self.agreement = GroupAgreement(self.learners) if isinstance(self.learners, LearnerGroup) else Agreement()
        self.progress = self._make_progress()

    def _make_progress(self) -> Progress:
        """Continued from the parent, if there is one."""
        config = self.config
        progress = Progress(
            self.layout,
            config.workers.envs_per_worker,
            config.environment.frames_per_step,
            config.run.environment_max_steps,
            config.report.avg_buff_size,
            config.run.stop_at_return if self.rank.is_first else None,
            make_timing(config, self.layout, self.machine.inference_processes),
            learners=self.rank.size,
            first_worker=self.setup.first_worker,
        )
        self.resume.restore_progress(progress)
        return progress
