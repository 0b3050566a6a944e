"""Training, from the configuration to the trained weights: all wiring, and the loop."""

import sys
from contextlib import ExitStack, closing
from pathlib import Path

from agents.learner import Learner
from agents.network import make_network, weight_count
from agents.spaces import make_unroll_layout
from evaluation.periodic_evaluation import Evaluator, PeriodicEvaluator
from machine.device import usable_cores
from machine.gpu_gauge import GpuGauge
from machine.machine_setup import prepare_machine, settle_seed
from machine.stop_signals import StopSignals
from option_flags import Config
from reports.bottleneck import what_holds_back
from reports.console import make_console
from reports.make_sinks import check_sinks, make_sinks
from reports.run_summary import header, summary
from run_files.checkpoint import Checkpoint, check_resumable
from run_files.run_folder import CHECKPOINTS
from training.checkpoint_saver import Saver
from training.loop import training_loop
from training.machine_load import Hardware
from training.make_mix import make_mix
from training.memory_budget import plan_memory
from training.progress import Progress
from training.reporter import Reporter
from training.resume import Resume
from training.run_setup import make_run_folder
from workers.make_pool import make_pool
from workers.shared_weights import SharedWeights
from workers.weight_publisher import make_publisher
from workers.worker_clock import WorkerTimes
from wrappers.environment_types import MakeWatchedEnvironment


def train(config: Config, make_environment: MakeWatchedEnvironment, parent: Checkpoint | None = None) -> Path:
    """Train an agent as configured, from the start or from a checkpoint; return the run's folder.

    Everything that can be wrong is looked at before a folder is made or a process is started.
    """
    if parent is not None:
        check_resumable(config, parent)
    check_sinks(config.report)
    config, _ = settle_seed(config)
    machine = prepare_machine(config)
    slot_count, environments = machine.slots_per_worker, config.workers.envs_per_worker
    layout = make_unroll_layout(config, make_environment)
    network = make_network(config.network, layout, machine.precision)
    unrolls_in_slots = machine.worker_count * slot_count * environments
    memory = plan_memory(config, layout, make_environment, unrolls_in_slots).check(machine.worker_count, environments)
    resume = Resume(parent, config, layout, machine.worker_count)

    with ExitStack() as cleanup:
        stop = cleanup.enter_context(StopSignals())
        folder = make_run_folder(config, machine, resume)
        console = make_console(config.report.console, config.report.console_period, sys.stdout)
        sink = cleanup.enter_context(closing(make_sinks(config, folder, console.message)))
        console.start([*header(config, folder, machine, layout, memory, resume.planned_updates), *resume.notes()])

        learner = Learner(network, layout, config.loss, config.optimizer, resume.schedule_updates, machine.device)
        weights = SharedWeights(weight_count(network))
        publisher = make_publisher(network, weights, at_once=config.run.reproducible)
        mix = cleanup.enter_context(closing(make_mix(config, layout, resume, learner)))
        progress = Progress(
            layout,
            environments,
            config.environment.skipped_frames,
            config.run.environment_max_steps,
            config.report.avg_buff_size,
        )
        resume.restore(learner, mix, progress)
        publisher.post(learner.updates)
        publisher.deliver(wait=True)
        times = WorkerTimes(machine.worker_count + 1)  # the last for an inference server
        pool = cleanup.enter_context(
            closing(
                make_pool(
                    config,
                    make_environment,
                    layout,
                    machine,
                    weights,
                    times,
                    resume.count,
                    console.message,
                )
            )
        )
        resume.put_back(pool)
        hardware = Hardware(times, pool, GpuGauge(machine.device))
        reporter = Reporter(
            progress,
            pool,
            hardware,
            mix,
            sink,
            console,
            period=config.report.report_period,
            planned_updates=resume.planned_updates,
            warmup_unrolls=config.replay.warmup_unrolls,
        )
        saver = Saver(
            folder / CHECKPOINTS,
            config,
            layout,
            resume.count,
            resume.planned_updates,
            learner,
            mix,
            progress,
            pool,
            stop,
            console.message,
        )
        evaluator = cleanup.enter_context(
            closing(
                PeriodicEvaluator(
                    config,
                    make_environment,
                    layout,
                    machine.worker_precision,
                    learner,
                    progress,
                    saver,
                    stop,
                    folder,
                    console.message,
                )
                if config.test.eval_period
                else Evaluator()
            )
        )
        try:
            try:
                training_loop(
                    pool, mix, learner, publisher, progress, reporter, saver, evaluator, stop, config.run.reproducible
                )
            finally:
                saver.save(with_replays=config.saves_replays)
        finally:
            # A reproducible run that goes on later reports the stretch under way then, as if it had never been cut.
            if not (config.run.reproducible and progress.unrolls_left):
                reporter.report()
            reporter.show()
            pool.close()
            held_back_by = what_holds_back(
                progress.time_shares_of_the_run(),
                hardware.worker_shares(),
                *hardware.cores_in_use(usable_cores()),
                gpu=machine.device.type == "cuda",
                lockstep=config.run.reproducible,
            )
            # Last of all, after what there is to say of the evaluation under way.
            cleanup.callback(
                console.close,
                summary(folder, progress, saver, not (progress.unrolls_left or mix.ready()), held_back_by),
            )
            cleanup.callback(evaluator.close)
        evaluator.finish()
    return folder
