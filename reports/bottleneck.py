"""Names the bottleneck of a run in one sentence, from how its processes spent their time."""

from collections.abc import Mapping

NOTEWORTHY = 0.1  # a side that waits for a smaller part of its time counts as fully busy
ALL_CORES = 0.85  # from this part of the cores on, all cores count as busy
MUCH_OTHER_WORK = 0.25  # from this part of the cores on, other programs matter more than any flag

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
) -> str:
    """One sentence; an empty string if no unroll was received.

    `learner` and `workers` are the parts of their time by stage. `our_cores` and `others_cores` are the parts of the
    cores that worked for this run and for other programs.
    """
    played = {name: share for name, share in workers.items() if share is not None}
    if not played:
        return ""
    learner_waits, workers_wait = learner["wait"], played["waiting"]
    waits = f"the learner waits {learner_waits:.0%} of its time for unrolls, and the workers wait {workers_wait:.0%}"
    if lockstep:
        return f"workers and learner take turns (--reproducible): {waits} of theirs"
    top_learner = max(LEARNER_WORK, key=lambda name: learner[name])
    top_worker = max(WORKER_WORK, key=lambda name: played[name])
    full = our_cores + others_cores >= ALL_CORES
    disturbed = full and others_cores >= MUCH_OTHER_WORK
    others = f"; other programs took {others_cores:.0%} of the cores" if disturbed else ""
    if learner_waits < NOTEWORTHY <= workers_wait:
        return (
            f"the learner is the bottleneck: it spends {learner[top_learner]:.0%} of its time on "
            f"{LEARNER_WORK[top_learner]}, and the workers wait {workers_wait:.0%} of theirs"
            + (others or _for_the_learner(top_learner, full, gpu))
        )
    if workers_wait < NOTEWORTHY <= learner_waits:
        return (
            f"the workers are the bottleneck: they spend {played[top_worker]:.0%} of their time on "
            f"{WORKER_WORK[top_worker]}, and the learner waits {learner_waits:.0%} of its own"
            + (others or _for_the_workers(top_worker, full))
        )
    if max(learner_waits, workers_wait) < NOTEWORTHY:
        return f"learner and workers are in balance: {waits} of theirs" + (
            others or ("; more cores would help" if full else "")
        )
    return f"learner and workers wait for each other: {waits} of theirs" + (
        others or "; --slots_per_worker=2 or more may help"
    )


def _for_the_learner(top: str, full: bool, gpu: bool) -> str:
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


def _for_the_workers(top: str, full: bool) -> str:
    """Advice for workers that spend most of their time on stage `top`."""
    if not full:
        return "; a larger --worker_count would help"
    if top == "inference":
        return "; a smaller --network or more --envs_per_worker would help"
    return "; more cores would help"
