"""Training, from the configuration to the trained weights: creates all parts of a run and connects them."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from agents.learner import Learner
from cluster.cluster_actors import make_actors
from learners.group import OneLearner
from learners.shares import first_worker, learners_in_words
from machine.cpu_energy import CpuEnergy
from machine.device import usable_cores
from machine.gpu_gauge import GpuGauge
from machine.stop_signals import StopSignals
from option_flags import Config
from reports.bottleneck import name_bottleneck
from reports.run_summary import NetworkInUse, RunEnd, run_ending, run_header
from reports.sinks.make_sinks import make_sinks
from reports.sinks.sink import SinkList
from reports.terminal.console import RecordedConsole, make_console
from run_files.checkpoint import Checkpoint
from run_files.run_folder import CHECKPOINTS, MESSAGES
from training.checkpoint_saver import CheckpointSaver
from training.counters.clock_timing import make_timing
from training.counters.machine_load import MachineLoad
from training.counters.progress import Progress
from training.gpu_memory import explained
from training.housekeeping import Housekeeping
from training.learner_exchange import connect, make_agreement
from training.loop import training_loop
from training.make_replays import make_mix
from training.periodic_evaluation import Evaluation, PeriodicEvaluation
from training.reporter import Reporter
from training.run_setup import make_folder_of_learner, set_up_run
from training.summary_file import NoSummary, SummaryFile
from wrappers.environment_types import MakeWatchedEnvironment


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
    learners = learners or OneLearner()
    rank = learners.rank
    setup = set_up_run(config, make_environment, parent, learners)
    config, part, machine, layout, resume = setup.config, setup.part, setup.machine, setup.layout, setup.resume

    with ExitStack() as resources:  # closed in reverse order
        stop = resources.enter_context(StopSignals())
        folder = make_folder_of_learner(setup, learners)
        console = RecordedConsole(
            make_console(part.report.console, part.report.console_period, sys.stdout), folder / MESSAGES
        )
        sink = resources.enter_context(closing(make_sinks(part, folder, console.message)))
        last_lines: list[str] = []  # filled when training has ended; printed after all other messages
        resources.callback(console.close, last_lines)
        network = NetworkInUse(setup.network.torso_name, setup.network.compute_dtype)
        header = run_header(config, folder, machine, layout, network, setup.memory, resume.planned_updates)
        notes = [*environment_notes, *setup.environment_notes, *setup.weights.notes(), *resume.notes()]
        console.start([*header, *learners_in_words(part, rank), *notes])

        learner = resources.enter_context(
            closing(
                Learner(
                    setup.network,
                    layout,
                    config.loss,
                    config.optimizer,
                    resume.schedule_updates,
                    machine.device,
                    learners,
                    console.message,
                )
            )
        )
        setup.weights.restore_background(learner)
        mix = resources.enter_context(closing(make_mix(part, layout, resume, learner)))
        progress = Progress(
            layout,
            config.workers.envs_per_worker,
            config.environment.frames_per_step,
            config.run.environment_max_steps,
            config.report.avg_buff_size,
            config.run.stop_at_return if rank.is_first else None,
            make_timing(config, layout, machine.inference_processes),
            learners=rank.size,
            first_worker=first_worker(config, rank, machine.worker_count),
        )
        resume.restore(learner, mix, progress)
        updates_at_start = learner.updates
        summary = (SummaryFile if rank.is_first else NoSummary)(folder, config, progress, learner, resume.best)
        with (
            summary,
            closing(
                make_actors(
                    part,
                    make_environment,
                    learner.network,
                    learner.updates,
                    layout,
                    machine,
                    resume.count,
                    console.message,
                )
            ) as actors,
        ):
            resume.restore_workers(actors.pool)
            gpu = GpuGauge(machine.device)
            load = MachineLoad(actors.times, actors.pool, gpu, CpuEnergy(), progress.watt_hours)
            agreement = make_agreement(learners)
            reporter = Reporter(
                progress,
                learner,
                actors.pool,
                load,
                mix,
                SinkList(sink, summary),
                console,
                period=config.report.report_period,
                planned_updates=resume.planned_updates,
                warmup_unrolls=part.replay.warmup_unrolls,
                actors=actors,
                agreement=agreement,
            )
            actors.answer_commands(folder.name, stop, reporter.line)
            saver = CheckpointSaver(
                folder / CHECKPOINTS,
                config,
                layout,
                resume.count,
                resume.planned_updates,
                learner,
                mix,
                progress,
                resume.best,
                actors.pool,
                stop,
                console.message,
            )
            evaluation: Evaluation = Evaluation()
            if part.test.eval_period:
                evaluation = PeriodicEvaluation(
                    config,
                    make_environment,
                    layout,
                    machine.worker_precision,
                    machine.inference_processes,
                    saver,
                    folder,
                    stop,
                    console.message,
                )
            resources.callback(evaluation.close)
            housekeeping = Housekeeping(progress, reporter, saver, evaluation, agreement)
            connect(agreement, rank, learner, progress, reporter, saver, console.message)
            try:
                with learners.guarded(), explained(learner):
                    training_loop(actors, mix, learner, progress, housekeeping, stop, agreement)
            finally:
                try:
                    housekeeping.finish(
                        # Where the first learner is gone, the run resumes from its last checkpoint, to which the
                        # replays belong that the others have saved before.
                        with_replays=config.saves_replays and (rank.is_first or not learners.lost),
                        # A reproducible run that is interrupted saves its unfinished interval instead: the resumed run
                        # reports it as a whole.
                        report=progress.is_complete or not config.run.reproducible,
                    )
                finally:
                    finished = progress.goal_reached or not (progress.unrolls_left or mix.ready())
                    summary.finished = finished
                    last_lines += describe_end(
                        config, folder, finished, progress, learner.updates, updates_at_start, saver, load
                    )
        evaluation.finish()
    return folder


def describe_end(
    config: Config,
    folder: Path,
    finished: bool,
    progress: Progress,
    updates: int,
    updates_at_start: int,
    saver: CheckpointSaver,
    load: MachineLoad,
) -> list[str]:
    """The last lines of a run: how far it got, what limited its speed, and how to resume it."""
    bottleneck = name_bottleneck(
        progress.time_shares_of_run(),
        load.worker_shares(),
        *load.cores_in_use(usable_cores()),
        gpu=saver.learner.device.type == "cuda",
        lockstep=config.run.reproducible,
        real_time=config.environment.in_real_time,
    )
    end = RunEnd(
        folder=folder,
        finished=finished,
        steps_left=progress.unrolls_left > 0,
        goal=config.run.stop_at_return if progress.goal_reached else None,
        return_window=progress.return_window,
        agent_steps=progress.agent_steps,
        frames=progress.frames,
        updates=updates,
        updates_made=updates - updates_at_start,
        seconds=progress.seconds,
        return_mean=progress.return_mean,
        games_without_score=progress.episodes if progress.never_scored else 0,
        steps_to_learn=config.steps_to_learn,
        saving_seconds=saver.seconds,
        has_saved=saver.has_saved,
        bottleneck=bottleneck,
        watt_hours=load.measured_watt_hours(),
    )
    return run_ending(end)
