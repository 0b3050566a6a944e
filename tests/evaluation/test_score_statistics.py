"""Statistics of finished games, against slow versions."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.score_statistics import best_median_worst, bootstrap_interval, summarise
from reports.scores import PUBLISHED, human_normalised
from wrappers.emulator import ID_ENDING, atari_ids


@settings(max_examples=15)
@given(st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=9))
def test_a_summary_equals_the_standard_librarys(returns: list[float]) -> None:
    summary = summarise(returns)
    assert summary.mean == pytest.approx(statistics.fmean(returns))
    assert summary.median == statistics.median(returns)
    assert summary.std == pytest.approx(statistics.stdev(returns))
    assert (summary.min, summary.max) == (min(returns), max(returns))
    assert summary.interval is not None
    low, high = summary.interval
    assert summary.min <= low <= high <= summary.max


def test_one_game_has_no_spread() -> None:
    assert summarise([3.0]) == (3.0, 3.0, None, None, 3.0, 3.0)


def test_the_interval_is_the_bootstrap_interval() -> None:
    """Of two games, four draws are equally likely; of many, the mean is close to normal."""
    assert bootstrap_interval([0.0, 1.0], np.random.default_rng(1)) == (0.0, 1.0)
    returns = np.random.default_rng(2).normal(10.0, 3.0, 400)
    low, high = bootstrap_interval(returns.tolist(), np.random.default_rng(1))
    half = 1.96 * returns.std() / 20
    assert low == pytest.approx(returns.mean() - half, abs=0.03)
    assert high == pytest.approx(returns.mean() + half, abs=0.03)


def test_equal_returns_give_equal_summaries() -> None:
    assert summarise([1.0, 5.0, 2.0]) == summarise([1.0, 5.0, 2.0])


@pytest.mark.parametrize(
    ("returns", "chosen"),
    [
        ([5.0], {"best": 0}),
        ([5.0, 7.0], {"best": 1, "worst": 0}),
        ([2.0, 9.0, 1.0, 4.0, 3.0], {"best": 1, "worst": 2, "median": 4}),
        ([2.0, 9.0, 1.0, 4.0], {"best": 1, "worst": 2, "median": 3}),  # of two games in the middle the better one
        ([1.0, 1.0, 1.0], {"best": 0, "worst": 2, "median": 1}),
    ],
)
def test_best_median_and_worst(returns: list[float], chosen: dict[str, int]) -> None:
    assert best_median_worst(returns) == chosen


def test_human_scores() -> None:
    assert len(PUBLISHED) == 56
    assert all(scores.human > scores.random for scores in PUBLISHED.values())
    assert {game + ID_ENDING for game in PUBLISHED} <= set(atari_ids())
    assert human_normalised("PongNoFrameskip-v4", -20.7) == 0
    assert human_normalised("BreakoutNoFrameskip-v4", 30.5) == 1
    assert human_normalised("AdventureNoFrameskip-v4", 1.0) is None
    assert human_normalised("ALE/Pong-v5", -20.7) == 0 == human_normalised("ale_py:ALE/Pong-v5", -20.7)
    assert human_normalised("MinAtar/Breakout-v1", 1.0) is None
