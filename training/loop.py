"""The training loop."""

from agents.learner import Learner
from evaluation.periodic_evaluation import Evaluator
from machine.stop_signals import StopSignals
from replay.mix import Mix
from training.checkpoint_saver import Saver
from training.progress import Progress
from training.reporter import Reporter
from workers.weight_publisher import WeightPublisher
from workers.worker_pool import WorkerPool

POLL_SECONDS = 0.1  # longest wait before signals, workers and the display are looked after


def training_loop(
    source: WorkerPool,
    mix: Mix,
    learner: Learner,
    publisher: WeightPublisher,
    progress: Progress,
    reporter: Reporter,
    saver: Saver,
    evaluator: Evaluator,
    stop: StopSignals,
    lockstep: bool,
) -> None:
    """Drain → add → mix → update → publish → save → report, until enough steps were learned from or a signal came.

    In lockstep no unroll is taken before it is needed, so that what a batch is mixed from does not depend on time.
    What has come in is learned from, also after the last unroll has: a long queue may hold enough for many updates.
    """
    while (progress.unrolls_left or mix.ready()) and not stop.requested:
        with progress.stage("wait"):
            ready = mix.ready()
        with progress.stage("publish"):
            publisher.deliver(wait=not ready)
        with progress.stage("wait"):
            source.wait(0.0 if ready else POLL_SECONDS)
        with progress.stage("drain"):
            room = mix.unrolls_needed() if lockstep else mix.unrolls_accepted()
            for unroll in source.take(min(room, progress.unrolls_left)):
                mix.add(unroll)
                reporter.received(unroll)  # and counted: so the run comes to its end
        if mix.ready():
            with progress.stage("mix"):
                batch = mix.mix(learner.updates)
            with progress.stage("update"):
                learned = learner.update(batch)
            with progress.stage("publish"):
                publisher.post(learner.updates)  # of the network that has just learned
            reporter.updated(batch, learned)
        with progress.stage("save"):
            saver.tick()
            evaluator.tick()
        with progress.stage("report"):
            reporter.tick()
