"""Training, from the configuration to the trained weights: makes the parts of a run and connects them."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import torch

from agents.gradients import record_on_gpu
from agents.learner import Learner
from agents.network import ActorCritic
from cluster.cluster_actors import make_actors
from learners.group import OneLearner
from learners.shares import learners_in_words
from machine.device import is_nvidia
from machine.stop_signals import StopSignals
from option_flags import Config
from reports.console import make_console
from reports.run_header import NetworkInUse, run_header
from reports.sinks import make_sinks
from run_files.checkpoint import Checkpoint, refusing_foreign_content
from run_files.run_folder import LOGS, MESSAGES
from training.gpu_memory import explained
from training.housekeeping import Housekeeping, share_unrolls
from training.loop import training_loop
from training.make_replays import make_mix
from training.run import Run
from training.run_setup import make_folder_of_learner, set_up_run
from training.summary import SummaryFile
from workers.actors import Actors
from workers.worker import PlaySetup
from wrappers.environment import MakeWatchedEnvironment


def train(
    config: Config,
    make_environment: MakeWatchedEnvironment,
    parent: Checkpoint | None = None,
    environment_notes: Sequence[str] = (),
    learners: OneLearner | None = None,
) -> Path:
    """Train an agent as configured, from the start or from a checkpoint; return the run's folder.

    All checks of the options come before a folder is made or a process is started. `environment_notes` are further
    lines for the head of the run. With several learners, each of them calls this function with its own connection.
    """
    setup = set_up_run(config, make_environment, parent, learners)
    with ExitStack() as parts:  # closed in reverse order
        stop = parts.enter_context(StopSignals())
        folder, shown = make_folder_of_learner(setup), setup.part.report
        console = make_console(shown.console, shown.console_period, sys.stdout, folder / MESSAGES)
        run = Run(setup, folder, stop, console)
        sinks = parts.enter_context(closing(make_sinks(run.part, folder, run.announce)))
        parts.callback(console.close, run.last_lines)
        console.start(first_lines(run, environment_notes))
        summary = parts.enter_context(SummaryFile(run))
        parts.enter_context(explained())  # the GPU may be full already

        run.learner = parts.enter_context(closing(make_learner(run)))
        run.mix = parts.enter_context(closing(make_mix(run)))
        run.resume.restore(run.learner, run.mix)
        share_unrolls(run)
        run.progress.begin()
        with closing(start_actors(run)) as run.actors:
            housekeeping = Housekeeping(run, sinks, summary)
            parts.callback(housekeeping.close)
            try:
                with run.learners.guarded(), explained():
                    finished = training_loop(run, housekeeping)
                run.status = "finished" if finished else "stopped"
            finally:
                housekeeping.end_training()
        housekeeping.end_evaluation()
    return folder


def first_lines(run: Run, environment_notes: Sequence[str]) -> list[str]:
    """What is said before a run starts: its settings, and what is unusual about it."""
    setup = run.setup
    network = NetworkInUse(setup.network.torso_name, setup.network.compute_dtype)
    header = run_header(run.config, run.folder, run.machine, run.layout, network, run.resume.planned_updates)
    header += learners_in_words(run.part, run.rank)
    return [*header, *environment_notes, *setup.notes, *setup.weights.notes(), *run.resume.notes()]


def make_learner(run: Run) -> Learner:
    network, device = run.setup.network, run.machine.device
    learner = Learner(
        network,
        run.layout,
        run.config.loss,
        run.config.optimizer,
        run.resume.schedule_updates,
        device,
    )
    learner.join(run.learners)
    if records_updates(run.config, device, network):
        learner.record(record_on_gpu, run.announce)
    run.setup.weights.restore_background(learner)
    return learner


def records_updates(config: Config, device: torch.device, network: ActorCritic) -> bool:
    """Whether updates are recorded as CUDA graphs.

    A graph repeats kernels only. IMPACT's target network and a torso of the user's own may compute in Python, too. A
    reproducible run is not recorded either: after a resume, recording would begin at another update.
    """
    return (
        config.run.cuda_graphs
        and is_nvidia(device)
        and not (config.run.reproducible or config.loss.loss == "impact" or network.has_own_torso)
    )


def start_actors(run: Run) -> Actors:
    """Start the workers of this machine, and with --cluster those of other nodes.

    They continue the games, and the unrolls that the learner had not received, if these were saved.
    """
    setup = PlaySetup(
        run.part, run.setup.make_environment, run.layout, run.machine, run.resume.count, run.folder / LOGS
    )
    with refusing_foreign_content(run.resume.parent):
        return make_actors(setup, run.learner.network, run.learner.updates, run.announce, run.resume.in_flight)
