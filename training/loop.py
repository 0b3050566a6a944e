"""The training loop."""

from training.housekeeping import Housekeeping
from training.run import Run

POLL_SECONDS = 0.1  # longest wait for unrolls before signals, workers and the display are checked again


def training_loop(run: Run, housekeeping: Housekeeping) -> bool:
    """Take unrolls → add them to the replays → mix a batch → update the network → publish weights → save → report.

    `actors` are the workers, `mix` contains all replays. Each part of an iteration counts as a stage of the learner's
    time.

    The loop ends when the run has received all of its environment steps and no further batch can be mixed, when the
    mean return reaches --stop_at_return, or when a signal asks it to stop. A long queue may hold enough unrolls for
    many updates after the last unroll has arrived. Returns whether the run is finished, which it is not
    where a signal has ended it.

    With several learners (`--learners`), each one runs this loop. `agreement` lets all of them update at the same time,
    and end after the same update.

    In lockstep (`--reproducible`) the loop takes only the unrolls that the next batch needs, so that batches do not
    depend on timing.
    """
    actors, mix, learner = run.actors, run.mix, run.learner
    progress, agreement, stop = run.progress, run.agreement, run.stop

    def used_up() -> bool:
        return not (progress.unrolls_left or mix.ready())

    while agreement.goes_on(stops=progress.goal_reached or stop.requested, used_up=used_up()):
        with progress.stage("wait"):
            ready = mix.ready()  # may wait for a batch that is drawn in the background
        with progress.stage("publish"):  # the weights of the update before, if their copy from the GPU took longer
            actors.publisher.deliver(wait=not ready)
        with progress.stage("wait"):
            actors.wait(0.0 if ready else POLL_SECONDS)
        with progress.stage("drain"):
            wanted = mix.unrolls_needed() if run.config.run.reproducible else mix.unrolls_accepted()
            for unroll in actors.take(min(wanted, progress.unrolls_left)):
                mix.add(unroll)
                episodes = progress.count_unroll(unroll)
                housekeeping.after_unroll(episodes)
        if agreement.may_update(mix.ready()):
            with progress.stage("mix"):
                batch = mix.mix(learner.updates)
            with progress.stage("update"):
                figures = learner.update(batch)
            with progress.stage("publish"):
                actors.publish(learner.updates)
            progress.count_update(batch, figures, learner.updates)
            housekeeping.after_update()
        housekeeping.tick()
    finished = agreement.finished(used_up())
    return progress.goal_reached or finished
