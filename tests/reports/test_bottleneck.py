"""One sentence for each bottleneck that a run can have."""

import itertools

import pytest

from reports.bottleneck import name_bottleneck

LEARNER_BUSY = {
    "wait": 0.02,
    "drain": 0.02,
    "mix": 0.03,
    "update": 0.92,
    "publish": 0.01,
    "save": 0.0,
    "report": 0.0,
}
LEARNER_WAITS = {**LEARNER_BUSY, "wait": 0.5, "update": 0.4}
WORKERS_BUSY = {"environment": 0.7, "inference": 0.25, "waiting": 0.01, "weights": 0.02, "rest": 0.02}
WORKERS_WAIT = {**WORKERS_BUSY, "environment": 0.4, "waiting": 0.31}


@pytest.mark.parametrize(
    ("learner", "workers", "ours", "others", "gpu", "lockstep", "sentence"),
    [
        (
            *(LEARNER_BUSY, WORKERS_WAIT, 0.98, 0.02, False, False),
            "the learner is the bottleneck: it spends 92% of its time on updates, and the workers wait 31% of theirs; "
            "a smaller --network or more cores would help",
        ),
        (
            *(LEARNER_BUSY, WORKERS_WAIT, 0.5, 0.02, False, False),
            "the learner is the bottleneck: it spends 92% of its time on updates, and the workers wait 31% of theirs; "
            "more --learner_threads, a smaller --network or a GPU would help",
        ),
        (
            *(LEARNER_BUSY, WORKERS_WAIT, 0.98, 0.02, True, False),
            "the learner is the bottleneck: it spends 92% of its time on updates, and the workers wait 31% of theirs; "
            "a larger --batch_size or a smaller --network would help",
        ),
        (
            *({**LEARNER_BUSY, "mix": 0.6, "update": 0.3}, WORKERS_WAIT, 0.98, 0.02, False, False),
            "the learner is the bottleneck: it spends 60% of its time on mixing batches, and the workers wait 31% of "
            "theirs; --caching, which mixes them in advance, may help",
        ),
        (
            *({**LEARNER_BUSY, "save": 0.6, "update": 0.3}, WORKERS_WAIT, 0.98, 0.02, False, False),
            "the learner is the bottleneck: it spends 60% of its time on checkpoints, and the workers wait 31% of "
            "theirs; a larger --save_model_period or --save_model_minutes would help",
        ),
        (
            *(LEARNER_WAITS, WORKERS_BUSY, 0.5, 0.02, False, False),
            "the workers are the bottleneck: they spend 70% of their time on the games, and the learner waits 50% of "
            "its own; a larger --worker_count would help",
        ),
        (
            *(LEARNER_WAITS, WORKERS_BUSY, 0.98, 0.02, False, False),
            "the workers are the bottleneck: they spend 70% of their time on the games, and the learner waits 50% of "
            "its own; more cores would help",
        ),
        (
            *(LEARNER_WAITS, {**WORKERS_BUSY, "environment": 0.2, "inference": 0.75}, 0.98, 0.02, False, False),
            "the workers are the bottleneck: they spend 75% of their time on choosing actions, and the learner waits "
            "50% of its own; a smaller --network or more --envs_per_worker would help",
        ),
        (
            *(LEARNER_BUSY, WORKERS_BUSY, 0.98, 0.02, False, False),
            "learner and workers are in balance: the learner waits 2% of its time for unrolls, and the workers wait "
            "1% of theirs; more cores would help",
        ),
        (
            *(LEARNER_BUSY, WORKERS_WAIT, 0.38, 0.6, False, False),
            "the learner is the bottleneck: it spends 92% of its time on updates, and the workers wait 31% of theirs; "
            "other programs took 60% of the cores",
        ),
        (
            *(LEARNER_BUSY, WORKERS_WAIT, 0.2, 0.6, False, False),
            "the learner is the bottleneck: it spends 92% of its time on updates, and the workers wait 31% of theirs; "
            "more --learner_threads, a smaller --network or a GPU would help",
        ),
        (
            *(LEARNER_WAITS, WORKERS_WAIT, 0.5, 0.02, False, False),
            "learner and workers wait for each other: the learner waits 50% of its time for unrolls, and the workers "
            "wait 31% of theirs; --slots_per_worker=2 or more may help",
        ),
        (
            *(LEARNER_WAITS, WORKERS_WAIT, 0.98, 0.02, False, False),
            "learner and workers wait for each other: the learner waits 50% of its time for unrolls, and the workers "
            "wait 31% of theirs; more cores would help",
        ),
        (
            *(LEARNER_WAITS, WORKERS_WAIT, 0.5, 0.02, False, True),
            "workers and learner take turns (--reproducible): the learner waits 50% of its time for unrolls, and the "
            "workers wait 31% of theirs",
        ),
    ],
)
def test_the_sentence(
    learner: dict[str, float],
    workers: dict[str, float | None],
    ours: float,
    others: float,
    gpu: bool,
    lockstep: bool,
    sentence: str,
) -> None:
    assert name_bottleneck(learner, workers, ours, others, gpu=gpu, lockstep=lockstep) == sentence


def test_there_is_no_sentence_before_the_first_unroll() -> None:
    assert name_bottleneck(LEARNER_WAITS, dict.fromkeys(WORKERS_BUSY), 0.5, 0.0, gpu=False, lockstep=False) == ""


def test_every_case_is_one_line() -> None:
    for top, worker_top, busy in itertools.product(LEARNER_BUSY, WORKERS_BUSY, (0.1, 1.0)):
        learner = {name: 0.9 if name == top else 0.01 for name in LEARNER_BUSY}
        workers: dict[str, float | None] = {name: 0.9 if name == worker_top else 0.01 for name in WORKERS_BUSY}
        sentence = name_bottleneck(learner, workers, busy, 0.0, gpu=False, lockstep=False)
        assert sentence and "\n" not in sentence


def test_games_in_real_time_set_the_pace_unless_the_learner_is_too_slow() -> None:
    sentence = name_bottleneck(LEARNER_WAITS, WORKERS_WAIT, 0.5, 0.0, gpu=False, lockstep=False, real_time=True)
    assert sentence == (
        "the games are played by the clock: the learner waits 50% of its time for unrolls, and the workers wait 31% "
        "of theirs"
    )
    sentence = name_bottleneck(LEARNER_BUSY, WORKERS_WAIT, 0.5, 0.0, gpu=False, lockstep=False, real_time=True)
    assert sentence.startswith("the learner is the bottleneck")
