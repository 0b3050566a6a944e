"""Names the bottleneck of a run in one sentence, from how its processes spent their time."""

from collections.abc import Mapping

SIGNIFICANT_WAIT = 0.1  # learner or workers that wait for a smaller fraction of their time count as fully busy
ALL_CORES = 0.85  # if at least this fraction of the cores is in use, all count as busy
MUCH_OTHER_WORK = 0.25  # if other programs use at least this fraction of the cores, no flag helps as much

LEARNER_WORK = {
    "drain": "receiving unrolls",
    "mix": "mixing batches",
    "update": "updates",
    "publish": "publishing weights",
    "save": "checkpoints",
    "report": "reports",
}
WORKER_WORK = {
    "environment": "the games",
    "inference": "choosing actions",
    "weights": "copying weights",
    "rest": "other work",
}


def name_bottleneck(
    learner: Mapping[str, float],
    workers: Mapping[str, float | None],
    our_cores: float,
    others_cores: float,
    *,
    gpu: bool,
    lockstep: bool,
    real_time: bool = False,
) -> str:
    """One sentence; an empty string if no unroll was received.

    `learner` and `workers` are the fractions of their time by stage. `our_cores` and `others_cores` are the fractions
    of all cores that this run and other programs used.
    """
    worker_shares = {name: share for name, share in workers.items() if share is not None}
    if not worker_shares:
        return ""
    learner_waits, workers_wait = learner["wait"], worker_shares["waiting"]
    waits = f"the learner waits {learner_waits:.0%} of its time for unrolls, and the workers wait {workers_wait:.0%}"
    if lockstep or (real_time and learner_waits >= SIGNIFICANT_WAIT):
        pace = "workers and learner take turns (--reproducible)" if lockstep else "the games are played by the clock"
        return f"{pace}: {waits} of theirs"
    top_learner = max(LEARNER_WORK, key=lambda name: learner[name])
    top_worker = max(WORKER_WORK, key=lambda name: worker_shares[name])
    full = our_cores + others_cores >= ALL_CORES
    disturbed = full and others_cores >= MUCH_OTHER_WORK
    other_programs = f"; other programs took {others_cores:.0%} of the cores" if disturbed else ""
    if learner_waits < SIGNIFICANT_WAIT <= workers_wait:
        return (
            f"the learner is the bottleneck: it spends {learner[top_learner]:.0%} of its time on "
            f"{LEARNER_WORK[top_learner]}, and the workers wait {workers_wait:.0%} of theirs"
            + (other_programs or _learner_advice(top_learner, full, gpu))
        )
    if workers_wait < SIGNIFICANT_WAIT <= learner_waits:
        return (
            f"the workers are the bottleneck: they spend {worker_shares[top_worker]:.0%} of their time on "
            f"{WORKER_WORK[top_worker]}, and the learner waits {learner_waits:.0%} of its own"
            + (other_programs or _worker_advice(top_worker, full))
        )
    if max(learner_waits, workers_wait) < SIGNIFICANT_WAIT:
        return f"learner and workers are in balance: {waits} of theirs" + (
            other_programs or ("; more cores would help" if full else "")
        )
    return f"learner and workers wait for each other: {waits} of theirs" + (
        other_programs or ("; more cores would help" if full else "; --slots_per_worker=2 or more may help")
    )


def _learner_advice(top: str, full: bool, gpu: bool) -> str:
    """Advice for a learner that spends most of its time on stage `top`."""
    if top == "save":
        return "; a larger --save_model_period or --save_model_minutes would help"
    if top == "mix":
        return "; --caching, which mixes them in advance, may help"
    if top != "update":
        return ""
    if gpu:
        return "; a larger --batch_size or a smaller --network would help"
    if full:
        return "; a smaller --network or more cores would help"
    return "; more --learner_threads, a smaller --network or a GPU would help"


def _worker_advice(top: str, full: bool) -> str:
    """Advice for workers that spend most of their time on stage `top`."""
    if not full:
        return "; a larger --worker_count would help"
    if top == "inference":
        return "; a smaller --network or more --envs_per_worker would help"
    return "; more cores would help"
