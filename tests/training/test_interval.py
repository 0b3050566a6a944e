"""What an interval sums up of the draws from replays."""

import numpy as np
import pytest
import torch

from option_flags import Config
from replay.mix import Batch, Drawn
from tests.training.some_run import LAYOUT
from training.interval import Interval


def batch(*draws: Drawn) -> Batch:
    return Batch(torch.zeros(1, 1, dtype=torch.uint8), np.ones(1, bool), draws)


BATCHES = [
    batch(Drawn(1.0, age=2.0, seconds=0.5), Drawn(3.0, 6.0, 0.25, 1.0, 10.0, 2.0)),
    batch(Drawn(1.0, age=3.0, seconds=0.25), Drawn(4.0, 4.0, 0.75, 2.0, 20.0, 1.0)),
    batch(Drawn(1.0, age=4.0, seconds=0.25), Drawn(5.0, age=30.0, seconds=1.5)),  # at λ = 1, nothing is ranked
]


def interval_of(*batches: Batch) -> Interval:
    interval = Interval(Config(), LAYOUT)
    for one in batches:
        interval.add_draws(one)
    return interval


def test_figures_are_means_over_draws_and_distances_over_those_that_ranked() -> None:
    interval = interval_of(*BATCHES)
    queue, elite = interval.draw_figures(0), interval.draw_figures(1)
    assert queue.pop("distance_drawn") != queue.pop("distance_candidates"), "nothing was ranked: NaN"
    assert queue == {"age_mean": 3.0, "times_drawn_mean": 1.0, "lambda": 1.0}
    assert elite == {
        "age_mean": 20.0,
        "times_drawn_mean": 4.0,
        "lambda": pytest.approx(11 / 3),
        "distance_drawn": 0.5,
        "distance_candidates": 1.5,
    }
    assert [interval.draw_seconds(replay) for replay in (0, 1)] == [1.0, 4.5]


def test_there_are_no_figures_before_the_first_draw() -> None:
    assert (interval_of().draw_figures(0), interval_of().draw_seconds(0)) == ({}, None)


def test_saved_sums_are_continued() -> None:
    whole, first, second = interval_of(*BATCHES), interval_of(BATCHES[0]), interval_of()
    second.load_state_dict(first.state_dict(1.0), seconds=1.0)
    for one in BATCHES[1:]:
        second.add_draws(one)
    assert second.draw_figures(1) == whole.draw_figures(1)
    assert second.draw_seconds(1) == whole.draw_seconds(1)
    assert first.draw_seconds(1) == 2.0, "the saved sums are not changed"
