"""The training loop."""

from agents.learner import Learner
from machine.stop_signals import StopSignals
from replay.mix import Mix
from training.housekeeping import Housekeeping
from training.progress import Progress
from workers.actors import Actors

POLL_SECONDS = 0.1  # longest wait for unrolls before signals, workers and the display are checked again


def training_loop(
    actors: Actors, mix: Mix, learner: Learner, progress: Progress, housekeeping: Housekeeping, stop: StopSignals
) -> None:
    """Drain → add → mix → update → publish → save → report.

    The loop ends when the run has received all of its environment steps and no further batch can be mixed, or when a
    signal asks it to stop. A long queue may hold enough for many updates after the last unroll has arrived.

    In lockstep the loop takes only the unrolls that the next batch needs, so that batches do not depend on timing.
    """
    while (progress.unrolls_left or mix.ready()) and not stop.requested:
        with progress.stage("wait"):
            ready = mix.ready()
        with progress.stage("publish"):
            actors.finish_publishing(wait=not ready)
        with progress.stage("wait"):
            actors.wait(0.0 if ready else POLL_SECONDS)
        with progress.stage("drain"):
            wanted = mix.unrolls_needed() if actors.lockstep else mix.unrolls_accepted()
            for unroll in actors.take(min(wanted, progress.unrolls_left)):
                mix.add(unroll)
                episodes = progress.count_unroll(unroll)
                housekeeping.after_unroll(episodes)
        if mix.ready():
            with progress.stage("mix"):
                batch = mix.mix(learner.updates)
            with progress.stage("update"):
                figures = learner.update(batch)
            with progress.stage("publish"):
                actors.publish(learner.updates)
            progress.count_update(batch, figures, learner.updates)
            housekeeping.after_update()
        housekeeping.tick()
