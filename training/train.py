"""Training, from the configuration to the trained weights: makes the parts of a run and connects them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import torch

from agents.gradients import record_on_gpu, trained_parameters
from agents.learner import Learner
from agents.network import ActorCritic
from cluster.cluster_actors import with_nodes
from learners.group import OneLearner
from learners.shares import learners_in_words
from machine.device import is_nvidia
from machine.stop_signals import StopSignals
from option_flags import Config
from processes.pool import RunFailedError
from reports.console import make_console
from reports.number_format import count
from reports.run_header import run_header
from reports.sinks import make_sinks
from run_files.checkpoint import Checkpoint, refusing_foreign_content
from run_files.run_folder import LOGS, MESSAGES
from training.demonstrations import pretrain, pretrains, read_demonstrations
from training.housekeeping import Housekeeping
from training.loop import training_loop
from training.make_replays import make_mix
from training.run import Run, folder_of_run, set_up_run
from training.summary import summarised
from workers.actors import Actors, make_actors
from workers.worker import PlaySetup
from wrappers.environment import MakeEnvironment


def train(
    config: Config,
    make_environment: MakeEnvironment,
    parent: Checkpoint | None = None,
    environment_notes: Sequence[str] = (),
    learners: OneLearner | None = None,
) -> Path:
    """Train an agent as configured, from the start or from a checkpoint; return the run's folder.

    All checks of the options come before a folder is made or a process is started. `environment_notes` are further
    lines for the head of the run. With several learners, each of them calls this function with its own connection.
    """
    run = set_up_run(config, make_environment, parent, learners)
    run.demonstrations = read_demonstrations(run)
    with ExitStack() as parts:  # closed in reverse order
        run.stop = parts.enter_context(StopSignals())
        run.folder = parts.enter_context(folder_of_run(run))
        shown = run.part.report
        run.console = make_console(shown.console, shown.console_period, sys.stdout, run.folder / MESSAGES)
        sinks = parts.enter_context(closing(make_sinks(run.part, run.folder, run.announce)))
        parts.callback(run.console.close, run.last_lines)
        run.console.start(first_lines(run, environment_notes))
        parts.enter_context(summarised(run))
        parts.enter_context(explaining_a_full_gpu())  # it may be full already

        run.learner = make_learner(run)
        run.mix = parts.enter_context(closing(make_mix(run)))
        del run.demonstrations  # the mix has copies
        run.resume.restore_replays(run.mix)
        run.progress.begin()
        with closing(start_actors(run)) as run.actors:
            housekeeping = parts.enter_context(closing(Housekeeping(run, sinks)))
            try:
                with run.learners.guarded(), explaining_a_full_gpu():
                    finished = training_loop(run, housekeeping)
                run.status = "finished" if finished else "stopped"
            finally:
                housekeeping.end_training()
        housekeeping.end_evaluation()
    return run.folder


def first_lines(run: Run, environment_notes: Sequence[str]) -> list[str]:
    """What is said before a run starts: its settings, and what is unusual about it."""
    planned, network = run.resume.planned_updates, network_in_words(run.network)
    header = run_header(run.config, run.folder, run.machine, run.layout, network, planned)
    return [*header, *learners_in_words(run.part, run.rank), *environment_notes, *run.notes, *run.resume.notes]


def network_in_words(network: ActorCritic) -> str:
    parameters = count(sum(each.numel() for each in trained_parameters(network)))
    return f"{network.torso_name}{' with LSTM' if network.lstm else ''}, {parameters} parameters"


def make_learner(run: Run) -> Learner:
    """The learner, with what its parent, or a network alone from demonstrations, has learned."""
    device, options = run.machine.device, run.config
    pretrained = pretrain(run) if pretrains(run) else 0
    updates = run.resume.schedule_updates
    learner = Learner(run.network, run.layout, options.loss, options.optimizer, updates, device)
    learner.join(run.learners)
    if records_updates(options, device, run.network):
        learner.record(record_on_gpu, run.announce)
    run.resume.restore_learner(learner)
    if pretrained:
        learner.keep_background(pretrained)
    return learner


def records_updates(config: Config, device: torch.device, network: ActorCritic) -> bool:
    """Whether updates are recorded as CUDA graphs.

    A graph repeats kernels only, and a torso of the user's own may compute in Python, unless it says that it does not.
    A reproducible run is not recorded either: after a resume, recording would begin at another update.
    """
    return (
        config.run.cuda_graphs
        and is_nvidia(device)
        and not config.run.reproducible
        and (not network.has_own_torso or bool(getattr(network.torso, "cuda_graphs", False)))
    )


def start_actors(run: Run) -> Actors:
    """Start the workers of this machine, and with --cluster those of other nodes.

    They continue the games, and the unrolls that the learner had not received, if these were saved.
    """
    logs = run.folder / LOGS
    setup = PlaySetup(run.part, run.make_environment, run.layout, run.machine, run.resume.count, logs)
    saved, run.resume.in_flight = run.resume.in_flight, None
    updates = run.learner.updates
    with refusing_foreign_content(None if saved is None else run.resume.parent):
        actors = make_actors(setup, run.learner.network, updates, run.announce, saved)
    return actors if run.config.cluster.cluster is None else with_nodes(actors, setup, updates, run.announce)


@contextmanager
def explaining_a_full_gpu() -> Iterator[None]:
    """End a run whose GPU has no memory left with a sentence."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise RunFailedError(
            "the GPU's memory is used up; a smaller --batch_size, --r_f_steps or --network would be right, or fewer "
            "other programs on the GPU."
        ) from error
