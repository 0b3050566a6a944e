"""Makes the parts of a run that `train` connects, each from the options and from the parts that it needs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from agents.gradients import Record, record_on_gpu
from agents.learner import Learner
from agents.network import ActorCritic
from cluster.cluster_actors import make_actors
from learners.agreement import Agreement
from learners.group import OneLearner
from learners.rank import LearnerRank
from learners.shares import learners_in_words
from machine.stop_signals import StopSignals
from option_flags import Config
from replay.batch_mix import Mix
from reports.run_summary import NetworkInUse, run_header
from reports.sinks.sink import Sink
from reports.terminal.console import Console
from run_files.run_folder import CHECKPOINTS
from training.checkpoint_saver import CheckpointSaver
from training.counters.clock_timing import make_timing
from training.counters.machine_load import MachineLoad
from training.counters.progress import Progress
from training.periodic_evaluation import Evaluation, PeriodicEvaluation
from training.reporter import Reporter
from training.run_setup import RunSetup
from training.summary_file import SummaryFile
from workers.actors import Actors
from workers.worker_pool import WorkerPool
from wrappers.environment import MakeEnvironment, MakeWatchedEnvironment

Announce = Callable[[str], None]  # prints a sentence on the console


def first_lines(setup: RunSetup, rank: LearnerRank, folder: Path, environment_notes: Sequence[str]) -> list[str]:
    """What is said before a run starts: its settings, and what is unusual about it."""
    network = NetworkInUse(setup.network.torso_name, setup.network.compute_dtype)
    planned_updates = setup.resume.planned_updates
    header = run_header(setup.config, folder, setup.machine, setup.layout, network, setup.memory, planned_updates)
    notes = [*environment_notes, *setup.environment_notes, *setup.weights.notes(), *setup.resume.notes()]
    return [*header, *learners_in_words(setup.part, rank), *notes]


def make_learner(setup: RunSetup, learners: OneLearner, announce: Announce) -> Learner:
    learner = Learner(
        setup.network,
        setup.layout,
        setup.config.loss,
        setup.config.optimizer,
        setup.resume.schedule_updates,
        setup.machine.device,
        learners,
        announce,
        recorder_of_updates(setup.config, setup.machine.device, setup.network),
    )
    setup.weights.restore_background(learner)
    return learner


def recorder_of_updates(config: Config, device: torch.device, network: ActorCritic) -> Record[Any] | None:
    """Records updates as CUDA graphs; None where they are not recorded.

    A graph repeats kernels only. IMPACT's target network and a torso of the user's own may compute in Python, too. A
    reproducible run is not recorded either: after a resume, recording would begin at another update.
    """
    can_record = (
        config.run.cuda_graphs
        and device.type == "cuda"
        and torch.version.hip is None  # AMD's GPUs, for which torch says cuda too, were not tried
        and not (config.run.reproducible or config.loss.loss == "impact" or network.has_own_torso)
    )
    return record_on_gpu if can_record else None


def make_progress(setup: RunSetup, rank: LearnerRank) -> Progress:
    """Continued from the parent, if there is one."""
    config = setup.config
    progress = Progress(
        setup.layout,
        config.workers.envs_per_worker,
        config.environment.frames_per_step,
        config.run.environment_max_steps,
        config.report.avg_buff_size,
        config.run.stop_at_return if rank.is_first else None,
        make_timing(config, setup.layout, setup.machine.inference_processes),
        learners=rank.size,
        first_worker=setup.first_worker,
    )
    setup.resume.restore_progress(progress)
    return progress


def start_actors(setup: RunSetup, make_environment: MakeEnvironment, learner: Learner, announce: Announce) -> Actors:
    """Start the workers of this machine, and with --cluster those of other nodes."""
    return make_actors(
        setup.part,
        make_environment,
        learner.network,
        learner.updates,
        setup.layout,
        setup.machine,
        setup.resume.count,
        announce,
    )


def make_reporter(
    setup: RunSetup,
    progress: Progress,
    learner: Learner,
    actors: Actors,
    load: MachineLoad,
    mix: Mix,
    sink: Sink,
    console: Console,
    agreement: Agreement,
) -> Reporter:
    return Reporter(
        progress,
        learner,
        actors.pool,
        load,
        mix,
        sink,
        console,
        period=setup.config.report.report_period,
        planned_updates=setup.resume.planned_updates,
        warmup_unrolls=setup.part.replay.warmup_unrolls,
        actors=actors,
        agreement=agreement,
    )


def make_saver(
    setup: RunSetup,
    folder: Path,
    learner: Learner,
    mix: Mix,
    progress: Progress,
    pool: WorkerPool,
    stop: StopSignals,
    announce: Announce,
) -> CheckpointSaver:
    resume = setup.resume
    return CheckpointSaver(
        folder / CHECKPOINTS,
        setup.config,
        setup.layout,
        resume.count,
        resume.planned_updates,
        learner,
        mix,
        progress,
        resume.best,
        pool,
        stop,
        announce,
    )


def make_evaluation(
    setup: RunSetup,
    make_environment: MakeWatchedEnvironment,
    saver: CheckpointSaver,
    folder: Path,
    stop: StopSignals,
    announce: Announce,
    agreement: Agreement,
    summary: SummaryFile,
) -> Evaluation:
    """Evaluation games during training, if --eval_period asks for them."""
    if not setup.part.test.eval_period:
        return Evaluation()
    machine = setup.machine
    return PeriodicEvaluation(
        setup.config,
        make_environment,
        setup.layout,
        machine.worker_precision,
        machine.inference_processes,
        saver,
        folder,
        stop,
        announce,
        agreement.keep_alive,
        summary.show_alive,
    )
