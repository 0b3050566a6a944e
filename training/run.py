"""A training run as an object: what its parts share."""

from pathlib import Path
from typing import Literal

from agents.learner import Learner
from agents.network import ActorCritic
from learners.agreement import Agreement, GroupAgreement
from learners.group import LearnerGroup, OneLearner
from machine.machine_setup import Machine
from machine.stop_signals import StopSignals
from option_flags import Config
from replay.mix import Mix
from replay.unroll_layout import UnrollLayout
from reports.console import Console
from training.progress import Progress
from training.resume import Resume
from workers.actors import Actors
from wrappers.environment import MakeWatchedEnvironment

Status = Literal["running", "finished", "stopped", "failed"]


class Run:
    """What makes, reports, saves, evaluates or sums up a run takes it as a whole.

    `set_up_run` checks it and fills it up to `progress`. `train` adds the rest in this order.
    """

    config: Config  # with a seed
    part: Config  # of this learner; the same as `config` if there is only one
    machine: Machine
    layout: UnrollLayout
    network: ActorCritic
    first_worker: int  # the number of this learner's first worker among those of all learners
    notes: list[str]  # for the user: the memory of the replays, and what is unusual about the environment
    resume: Resume  # what it begins with
    progress: Progress

    stop: StopSignals
    folder: Path
    console: Console
    learner: Learner
    mix: Mix
    actors: Actors

    def __init__(self, make_environment: MakeWatchedEnvironment, learners: OneLearner) -> None:
        self.make_environment = make_environment
        self.learners, self.rank = learners, learners.rank  # the connection with the other learners
        # One learner agrees with itself.
        self.agreement = GroupAgreement(learners) if isinstance(learners, LearnerGroup) else Agreement()
        self.status: Status = "running"
        self.last_lines: list[str] = []  # filled when training has ended; printed after all other messages

    def announce(self, sentence: str) -> None:
        """Print a sentence, and keep it in the run's folder."""
        self.console.message(sentence)
