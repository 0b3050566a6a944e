"""A training run as an object: what its parts share."""

from pathlib import Path
from typing import Literal

from agents.learner import Learner
from learners.agreement import Agreement, GroupAgreement
from learners.group import LearnerGroup
from machine.stop_signals import StopSignals
from replay.batch_mix import Mix
from reports.console import Console
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
        timing = make_timing(self.config, self.layout, self.machine.inference_processes)
        self.progress = Progress(self.config, self.layout, timing, self.rank, setup.first_worker)
        self.resume.restore_progress(self.progress, self.config)
