"""Interquartile mean and Atari-5's estimate: slow versions, and cases computed by hand."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.scores import (
    ATARI_5,
    atari5_median,
    atari5_median_of_runs,
    interquartile_mean,
    interquartile_mean_of_runs,
)


def slow_interquartile_mean(scores: list[float]) -> float:
    """Takes the lowest and the highest away, one pair for each complete four."""
    left = list(scores)
    for _ in range(len(scores) // 4):
        left.remove(min(left))
        left.remove(max(left))
    return statistics.fmean(left)


@given(st.lists(st.integers(-100, 100).map(float), min_size=1, max_size=21))
def test_the_interquartile_mean_is_that_of_the_slow_version(scores: list[float]) -> None:
    assert float(interquartile_mean(np.array(scores))) == pytest.approx(slow_interquartile_mean(scores), abs=1e-9)


def test_the_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.array([9.0, 1.0, 2.0, 100.0])) == 5.5
    assert interquartile_mean(np.array([3.0, 1.0, 2.0])) == 2.0
    np.testing.assert_array_equal(interquartile_mean(np.array([[0.0, 1.0, 2.0, 9.0], [4.0, 4.0, 8.0, 8.0]])), [1.5, 6])


def test_the_estimate_by_hand() -> None:
    """If all games are at 99%, the sum is 2 times the sum of the weights. A score below 0 counts as 0."""
    weights = sum(ATARI_5.values())
    same = dict.fromkeys(ATARI_5, np.array(0.99))
    assert float(atari5_median(same)) == pytest.approx((100**weights - 1) / 100)
    none = dict.fromkeys(ATARI_5, np.array(-3.0))
    assert float(atari5_median(none)) == 0
    one = {**none, "Phoenix": np.array(9.99)}
    assert float(atari5_median(one)) == pytest.approx((math.exp(0.12412619402774641 * math.log(1000)) - 1) / 100)


def test_the_estimate_is_near_published_medians() -> None:
    """DQN of Mnih et al., 2015, and Rainbow of Hessel et al., 2018: 79% and 223%, with no-op starts."""
    dqn = {"BattleZone": 29900.0, "DoubleDunk": -6.6, "NameThisGame": 8207.8, "Phoenix": 8485.2, "Qbert": 13117.3}
    rainbow = {
        "BattleZone": 62010.0,
        "DoubleDunk": -0.3,
        "NameThisGame": 13136.0,
        "Phoenix": 108528.6,
        "Qbert": 33817.5,
    }
    for scores, median in ((dqn, 0.79), (rainbow, 2.23)):
        found = atari5_median({game: np.array(normalised(game, score)) for game, score in scores.items()})
        assert float(found) == pytest.approx(median, rel=0.15)


def normalised(game: str, score: float) -> float:
    low, high = {
        "BattleZone": (2360.0, 37187.5), "DoubleDunk": (-18.6, -16.4), "NameThisGame": (2292.3, 8049.0),
        "Phoenix": (761.4, 7242.6), "Qbert": (163.9, 13455.0),
    }[game]  # fmt: skip
    return (score - low) / (high - low)


def test_the_estimate_of_several_seeds_is_that_of_their_means() -> None:
    runs = {game: [0.5, 1.5] for game in ATARI_5}
    assert atari5_median_of_runs({**runs, "Pong": [7.0]}).value == pytest.approx(
        float(atari5_median(dict.fromkeys(ATARI_5, np.array(1.0))))
    )


def test_an_interval_needs_two_seeds_of_each_game() -> None:
    assert interquartile_mean_of_runs({"Pong": [1.0, 2.0], "Qbert": [1.0]}).interval is None
    assert atari5_median_of_runs({game: [1.0] for game in ATARI_5}).interval is None


def test_the_bootstrap_draws_within_each_game() -> None:
    """Each game has equal seeds, so that every sample is the same; over all runs together, it would not be."""
    found = interquartile_mean_of_runs({"Pong": [0.1, 0.1], "Qbert": [0.9, 0.9], "Phoenix": [5.0, 5.0]})
    assert found.interval == (found.value, found.value)


def test_the_interval_of_two_runs_is_known() -> None:
    """Of one game with two runs, four samples are equally likely: the lowest, the mean twice, and the highest."""
    assert interquartile_mean_of_runs({"Pong": [0.0, 1.0]}) == (0.5, (0.0, 1.0))


def test_the_interval_of_many_runs_is_that_of_a_normal_mean() -> None:
    """The interquartile mean of n normal numbers has a standard deviation of about 1.09 times that of the mean."""
    values = np.random.default_rng(1).normal(1.0, 0.2, 400)
    found = interquartile_mean_of_runs({"Pong": values.tolist()})
    assert found.interval is not None
    low, high = found.interval
    assert high - low == pytest.approx(2 * 1.96 * 1.09 * 0.2 / 20, rel=0.15)
    assert low < found.value < high
