import math

import numpy as np
import pytest
import torch

from replay.batch_mix import Batch, ReplayDraw
from replay.interface import Drawn
from training.counters.draw_statistics import DrawStatistics


def batch(*draws: ReplayDraw) -> Batch:
    return Batch(torch.zeros(1, 1, dtype=torch.uint8), np.ones(1, bool), draws)


BATCHES = [
    batch(ReplayDraw(Drawn(1.0), 2.0, 0.5), ReplayDraw(Drawn(3.0, 6.0, 0.25, 1.0), 10.0, 2.0)),
    batch(ReplayDraw(Drawn(1.0), 3.0, 0.25), ReplayDraw(Drawn(4.0, 4.0, 0.75, 2.0), 20.0, 1.0)),
    batch(ReplayDraw(Drawn(1.0), 4.0, 0.25), ReplayDraw(Drawn(5.0), 30.0, 1.5)),  # at λ = 1, nothing is ranked
]


def test_figures_are_means_over_draws_and_distances_over_those_that_ranked() -> None:
    sums = DrawStatistics()
    for one in BATCHES:
        sums.add(one)
    queue, elite = sums.figures()
    assert queue.pop("distance_drawn") != queue.pop("distance_candidates"), "nothing was ranked: NaN"
    assert queue == {"age_mean": 3.0, "times_drawn_mean": 1.0, "lambda": 1.0}
    assert elite == {
        "age_mean": 20.0,
        "times_drawn_mean": 4.0,
        "lambda": pytest.approx(11 / 3),
        "distance_drawn": 0.5,
        "distance_candidates": 1.5,
    }
    assert sums.seconds() == [1.0, 4.5]


def test_there_are_no_figures_before_the_first_draw() -> None:
    assert (DrawStatistics().figures(), DrawStatistics().seconds()) == ([], [])


def test_distances_are_nan_if_nothing_was_ranked() -> None:
    sums = DrawStatistics()
    sums.add(BATCHES[2])
    for figures in sums.figures():
        for name in ("distance_drawn", "distance_candidates"):
            value = figures[name]
            assert isinstance(value, float) and math.isnan(value)


def test_saved_sums_are_continued() -> None:
    whole, first = DrawStatistics(), DrawStatistics()
    for one in BATCHES:
        whole.add(one)
    first.add(BATCHES[0])
    second = DrawStatistics(first.rows, first.draws)
    for one in BATCHES[1:]:
        second.add(one)
    assert (second.rows, second.draws) == (whole.rows, whole.draws)
    assert (len(first.rows), first.draws) == (2, 1)
    assert first.seconds() == [0.5, 2.0], "the saved sums are not changed"
