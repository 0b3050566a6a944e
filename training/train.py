"""Training, from the configuration to the trained weights: creates all parts of a run and connects them."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from agents.learner import Learner
from learners.group import OneLearner
from machine.capacity import usable_cores
from machine.cpu_energy import CpuEnergy
from machine.gpu_gauge import GpuGauge
from machine.stop_signals import StopSignals
from option_flags import Config
from reports.bottleneck import name_bottleneck
from reports.run_summary import RunEnd, run_ending
from reports.sinks.make_sinks import make_sinks
from reports.sinks.sink import SinkList
from reports.terminal.console import RecordedConsole, make_console
from run_files.checkpoint import Checkpoint
from run_files.run_folder import MESSAGES
from training.checkpoint_saver import CheckpointSaver
from training.counters.machine_load import MachineLoad
from training.counters.progress import Progress
from training.gpu_memory import explained
from training.housekeeping import Housekeeping
from training.learner_exchange import connect, make_agreement, share_unrolls
from training.loop import training_loop
from training.make_parts import (
    first_lines,
    make_evaluation,
    make_learner,
    make_progress,
    make_reporter,
    make_saver,
    start_actors,
)
from training.make_replays import make_mix
from training.run_setup import make_folder_of_learner, set_up_run
from training.summary_file import NoSummary, SummaryFile
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
    learners = learners or OneLearner()
    rank = learners.rank
    setup = set_up_run(config, make_environment, parent, learners)
    config, part, layout, resume = setup.config, setup.part, setup.layout, setup.resume

    with ExitStack() as resources:  # closed in reverse order
        stop = resources.enter_context(StopSignals())
        folder = make_folder_of_learner(setup, learners)
        console = RecordedConsole(
            make_console(part.report.console, part.report.console_period, sys.stdout), folder / MESSAGES
        )
        sink = resources.enter_context(closing(make_sinks(part, folder, console.message)))
        last_lines: list[str] = []  # filled when training has ended; printed after all other messages
        resources.callback(console.close, last_lines)
        console.start(first_lines(setup, rank, folder, environment_notes))

        progress = make_progress(setup, rank)
        make_summary = SummaryFile if rank.is_first else NoSummary
        summary = resources.enter_context(make_summary(folder, config, progress, resume.updates, resume.best))
        resources.enter_context(explained())  # the GPU may be full already
        learner = resources.enter_context(closing(make_learner(setup, learners, console.message)))
        mix = resources.enter_context(closing(make_mix(part, layout, resume, learner)))
        resume.restore(learner, mix)
        summary.learner = learner
        share_unrolls(learners, progress, mix)
        progress.begin()
        with closing(start_actors(setup, make_environment, learner, console.message)) as actors:
            resume.restore_workers(actors.pool)
            load = MachineLoad(
                actors.times, actors.pool, GpuGauge(setup.machine.device), CpuEnergy(), progress.watt_hours
            )
            agreement = make_agreement(learners)
            reporter = make_reporter(
                setup, progress, learner, actors, load, mix, SinkList(sink, summary), console, agreement
            )
            actors.answer_commands(folder.name, stop, reporter.line)
            saver = make_saver(setup, folder, learner, mix, progress, actors.pool, stop, console.message)
            evaluation = make_evaluation(
                setup, make_environment, saver, folder, stop, console.message, agreement, summary
            )
            resources.callback(evaluation.close)
            housekeeping = Housekeeping(progress, reporter, saver, evaluation, summary, agreement)
            connect(agreement, rank, learner, progress, reporter, saver, console.message)
            finished = False
            try:
                with learners.guarded(), explained(learner):
                    finished = training_loop(actors, mix, learner, progress, housekeeping, stop, agreement)
            finally:
                reports = progress.reports_at_end(finished, config.run.reproducible)
                try:
                    save_and_report(config, learners, learner, housekeeping, agreement.reports_at_end(reports))
                finally:
                    summary.training_ended(finished)
                    last_lines += describe_end(
                        config, folder, finished, progress, learner.updates, resume.updates, saver, load
                    )
        evaluation.finish()
        saver.end_if_unsaved()
    return folder


def save_and_report(
    config: Config, learners: OneLearner, learner: Learner, housekeeping: Housekeeping, reports: bool
) -> None:
    """The last checkpoint and, if there is one, the last report."""
    if learners.another_lost and learner.device.type == "cuda":
        return  # the GPU may wait for the gradients of the lost learner for ever, and every copy from it with it
    housekeeping.finish(
        # Where the first learner is gone, the run resumes from its last checkpoint, to which the replays belong that
        # the others have saved before.
        with_replays=config.saves_replays and (learners.rank.is_first or not learners.lost),
        report=reports,
    )


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
        steps_left=progress.steps_left,
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
