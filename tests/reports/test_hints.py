"""One sentence for each bottleneck that a run can have."""

import itertools

import pytest

from reports.hints import name_bottleneck

LEARNER_BUSY = {
    **{"wait": 0.02, "drain": 0.02, "mix": 0.03, "update": 0.92, "publish": 0.01, "save": 0.0, "report": 0.0}
}
LEARNER_WAITS = {**LEARNER_BUSY, "wait": 0.5, "update": 0.4}
WORKERS_BUSY = {"environment": 0.7, "inference": 0.25, "waiting": 0.01, "weights": 0.02, "rest": 0.02}
WORKERS_WAIT = {**WORKERS_BUSY, "environment": 0.4, "waiting": 0.31}


LEARNER = "the learner is the bottleneck: it spends {} of its time on {}, and the workers wait 31% of theirs"
WORKERS = "the workers are the bottleneck: they spend {} of their time on {}, and the learner waits 50% of its own"
BALANCE = "learner and workers are in balance: the learner waits 2% of its time for unrolls, and the workers wait 1%"
EACH_OTHER = "the learner waits 50% of its time for unrolls, and the workers wait 31% of theirs"
TURNS, CLOCK = "workers and learner take turns (--reproducible)", "the games are played by the clock"
ALL, HALF, DISTURBED = (0.98, 0.02), (0.5, 0.02), (0.38, 0.6)  # the cores in use: ours, others'


@pytest.mark.parametrize(
    ("learner", "workers", "cores", "gpu", "sentence", "advice"),
    [
        (LEARNER_BUSY, WORKERS_WAIT, ALL, False, LEARNER.format("92%", "updates"),
         "a smaller --network or more cores would help"),
        (LEARNER_BUSY, WORKERS_WAIT, HALF, False, LEARNER.format("92%", "updates"),
         "more --learner_threads, a smaller --network or a GPU would help"),
        (LEARNER_BUSY, WORKERS_WAIT, ALL, True, LEARNER.format("92%", "updates"),
         "a larger --batch_size or a smaller --network would help"),
        ({**LEARNER_BUSY, "mix": 0.6, "update": 0.3}, WORKERS_WAIT, ALL, False, LEARNER.format("60%", "mixing batches"),
         "--caching, which mixes them in advance, may help"),
        ({**LEARNER_BUSY, "save": 0.6, "update": 0.3}, WORKERS_WAIT, ALL, False, LEARNER.format("60%", "checkpoints"),
         "a larger --save_model_period or --save_model_minutes would help"),
        (LEARNER_BUSY, WORKERS_WAIT, DISTURBED, False, LEARNER.format("92%", "updates"),
         "other programs took 60% of the cores"),
        (LEARNER_WAITS, WORKERS_BUSY, HALF, False, WORKERS.format("70%", "the games"),
         "a larger --worker_count would help"),
        (LEARNER_WAITS, WORKERS_BUSY, ALL, False, WORKERS.format("70%", "the games"), "more cores would help"),
        (LEARNER_WAITS, {**WORKERS_BUSY, "environment": 0.2, "inference": 0.75}, ALL, False,
         WORKERS.format("75%", "choosing actions"), "a smaller --network or more --envs_per_worker would help"),
        (LEARNER_BUSY, WORKERS_BUSY, ALL, False, f"{BALANCE} of theirs", "more cores would help"),
        (LEARNER_WAITS, WORKERS_WAIT, HALF, False, f"learner and workers wait for each other: {EACH_OTHER}",
         "--slots_per_worker=2 or more may help"),
        (LEARNER_WAITS, WORKERS_WAIT, ALL, False, f"learner and workers wait for each other: {EACH_OTHER}",
         "more cores would help"),
    ],
)  # fmt: skip
def test_the_sentence(
    learner: dict[str, float],
    workers: dict[str, float | None],
    cores: tuple[float, float],
    gpu: bool,
    sentence: str,
    advice: str,
) -> None:
    assert name_bottleneck(learner, workers, *cores, gpu=gpu) == f"{sentence}; {advice}"


def test_the_pace_of_a_reproducible_run_and_of_games_in_real_time_is_no_bottleneck() -> None:
    said = name_bottleneck(LEARNER_WAITS, WORKERS_WAIT, *HALF, gpu=False, pace=TURNS)
    assert said == f"{TURNS}: {EACH_OTHER}"
    said = name_bottleneck(LEARNER_WAITS, WORKERS_WAIT, *HALF, gpu=False, pace=CLOCK)
    assert said == f"{CLOCK}: {EACH_OTHER}"
    said = name_bottleneck(LEARNER_BUSY, WORKERS_WAIT, *HALF, gpu=False, pace=CLOCK)
    assert said.startswith("the learner is the bottleneck")


def test_there_is_no_sentence_before_the_first_unroll() -> None:
    assert name_bottleneck(LEARNER_WAITS, dict.fromkeys(WORKERS_BUSY), 0.5, 0.0, gpu=False) == ""


def test_every_case_is_one_line() -> None:
    for top, worker_top, busy in itertools.product(LEARNER_BUSY, WORKERS_BUSY, (0.1, 1.0)):
        learner = {name: 0.9 if name == top else 0.01 for name in LEARNER_BUSY}
        workers: dict[str, float | None] = {name: 0.9 if name == worker_top else 0.01 for name in WORKERS_BUSY}
        sentence = name_bottleneck(learner, workers, busy, 0.0, gpu=False)
        assert sentence and "\n" not in sentence
