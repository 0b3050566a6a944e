"""Hints to the user: what limits the speed of a run, and which options were set but have no effect."""

from collections.abc import Mapping
from typing import Any

from option_flags import OPTIONS, Config, defaults_beside
from run_files.checkpoint import POLICY_OPTIONS

SIGNIFICANT_WAIT = 0.1  # learner or workers that wait for a smaller fraction of their time count as fully busy
ALL_CORES = 0.85  # if at least this fraction of the cores is in use, all count as busy
MUCH_OTHER_WORK = 0.25  # if other programs use at least this fraction of the cores, no flag helps as much

LEARNER_WORK = {  # what a stage of the learner is, and what would help
    "drain": ("receiving unrolls", ""),
    "mix": ("mixing batches", "--caching, which mixes them in advance, may help"),
    "update": ("updates", ""),
    "publish": ("publishing weights", ""),
    "save": ("checkpoints", "a larger --save_model_period or --save_model_minutes would help"),
    "report": ("reports", ""),
}
WORKER_WORK = {
    "environment": "the games",
    "inference": "choosing actions",
    "weights": "copying weights",
    "rest": "other work",
}
TEST_OPTIONS = (
    *("op_mode", "load_model_url", "test_episode_count", "test_policy", "render", "demonstrations"),
    *("seed", "worker_count", "worker_timeout", "console", "console_period"),
)


def name_bottleneck(
    learner: Mapping[str, float],
    workers: Mapping[str, float | None],
    our_cores: float,
    others_cores: float,
    *,
    gpu: bool,
    pace: str = "",
) -> str:
    """One sentence; an empty string if no unroll was received.

    `learner` and `workers` are the fractions of their time by stage. `our_cores` and `others_cores` are the fractions
    of all cores that this run and other programs used. `pace` says what makes the learner wait on purpose.
    """
    worker_shares = {name: share for name, share in workers.items() if share is not None}
    if not worker_shares:
        return ""
    learner_waits, workers_wait = learner["wait"], worker_shares["waiting"]
    waits = f"the learner waits {learner_waits:.0%} of its time for unrolls, and the workers wait {workers_wait:.0%}"
    if pace and learner_waits >= SIGNIFICANT_WAIT:
        return f"{pace}: {waits} of theirs"
    full = our_cores + others_cores >= ALL_CORES
    advice = "more cores would help" if full else ""
    if learner_waits < SIGNIFICANT_WAIT <= workers_wait:
        top = max(LEARNER_WORK, key=lambda name: learner[name])
        work, advice = LEARNER_WORK[top]
        sentence = (
            f"the learner is the bottleneck: it spends {learner[top]:.0%} of its time on {work}, and the workers wait "
            f"{workers_wait:.0%} of theirs"
        )
        if top == "update" and gpu:
            advice = "a larger --batch_size or a smaller --network would help"
        elif top == "update":
            advice = "a smaller --network or more cores would help"
            if not full:
                advice = "more --learner_threads, a smaller --network or a GPU would help"
    elif workers_wait < SIGNIFICANT_WAIT <= learner_waits:
        top = max(WORKER_WORK, key=lambda name: worker_shares[name])
        sentence = (
            f"the workers are the bottleneck: they spend {worker_shares[top]:.0%} of their time on {WORKER_WORK[top]}, "
            f"and the learner waits {learner_waits:.0%} of its own"
        )
        if not full:
            advice = "a larger --worker_count would help"
        elif top == "inference":
            advice = "a smaller --network or more --envs_per_worker would help"
    elif max(learner_waits, workers_wait) < SIGNIFICANT_WAIT:
        sentence = f"learner and workers are in balance: {waits} of theirs"
    else:
        sentence = f"learner and workers wait for each other: {waits} of theirs"
        advice = advice or "--slots_per_worker=2 or more may help"
    if full and others_cores >= MUCH_OTHER_WORK:
        advice = f"other programs took {others_cores:.0%} of the cores"
    return f"{sentence}; {advice}" if advice else sentence


def unused_in_training(config: Config) -> list[str]:
    """A line for each option that was set, but needs another option to have an effect."""
    return [
        f"--{name} has no effect without {need.words}"
        for name in changed_options(config)
        for need in OPTIONS[name].metadata["needs"]
        if not need.is_met(config)
    ] + [
        f"the {replay.type} replay draws like standard: nothing is ranked with {why}"
        for replay, share in zip(config.replay.replays, config.replay.shares, strict=True)
        if (why := replay.why_never_ranked(share))
    ]


def unused_in_test(config: Config) -> list[str]:
    """A line with the options that were set, but have an effect on training only; no line if there are none."""
    names = [f"--{name}" for name in changed_options(config) if name not in (*POLICY_OPTIONS, *TEST_OPTIONS)]
    return [f"without effect on a test: {', '.join(names)}"] if names else []


def changed_options(config: Config) -> dict[str, Any]:
    """The options that differ from the defaults of their environment, their protocol and their loss, by name."""
    flags = config.flags()
    defaults = defaults_beside(flags)
    return {name: value for name, value in flags.items() if value != defaults[name]}
