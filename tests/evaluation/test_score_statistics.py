"""Statistics of finished games, against slow versions."""

import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.parallel_games import GameResult
from evaluation.score_statistics import best_median_worst, bootstrap_interval, score_figures
from option_flags import Config, EnvironmentOptions
from reports.scores import PUBLISHED, human_normalised
from wrappers.emulator import ID_ENDING, atari_games


def figures_of(returns: list[float]) -> dict[str, Any]:
    games = [GameResult(game, each, 7, False, None) for game, each in enumerate(returns)]
    return score_figures(games, Config.from_flags({"env": "CartPole-v1"}).environment)


@settings(max_examples=15)
@given(st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=9))
@pytest.mark.slow
def test_the_figures_equal_the_standard_librarys_and_are_always_the_same(returns: list[float]) -> None:
    figures = figures_of(returns)
    assert figures["return_mean"] == pytest.approx(statistics.fmean(returns))
    assert figures["return_median"] == statistics.median(returns)
    assert figures["return_std"] == pytest.approx(statistics.stdev(returns))
    assert (figures["return_min"], figures["return_max"]) == (min(returns), max(returns))
    low, high = figures["return_mean_95"]
    assert min(returns) <= low <= high <= max(returns)
    assert figures_of(returns) == figures


def test_one_game_has_no_spread() -> None:
    figures = figures_of([3.0])
    assert (figures["return_mean"], figures["return_std"], figures["return_mean_95"]) == (3.0, None, None)


def test_the_interval_is_the_bootstrap_interval() -> None:
    """Of two games, four draws are equally likely; of many, the mean is close to normal."""
    assert bootstrap_interval(np.array([0.0, 1.0]), np.random.default_rng(1)) == (0.0, 1.0)
    returns = np.random.default_rng(2).normal(10.0, 3.0, 400)
    low, high = bootstrap_interval(returns, np.random.default_rng(1))
    half = 1.96 * returns.std() / 20
    assert low == pytest.approx(returns.mean() - half, abs=0.03)
    assert high == pytest.approx(returns.mean() + half, abs=0.03)


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


@pytest.mark.parametrize(("cut_off", "frames", "known"), [(False, 500, True), (True, 500, False), (True, 18_000, True)])
def test_games_that_were_cut_off_early_are_not_compared_with_people(cut_off: bool, frames: int, known: bool) -> None:
    games = [GameResult(0, -2.0, 7, cut_off, None)]
    figures = score_figures(games, EnvironmentOptions(env="PongNoFrameskip-v4", max_game_frames=frames))
    assert (figures["human_normalised"] is not None) == known


def test_human_scores() -> None:
    assert len(PUBLISHED) == 56
    assert all(scores.human > scores.random for scores in PUBLISHED.values())
    assert {game + ID_ENDING for game in PUBLISHED} <= set(atari_games())
    assert human_normalised("PongNoFrameskip-v4", -20.7) == 0
    assert human_normalised("BreakoutNoFrameskip-v4", 30.5) == 1
    assert human_normalised("AdventureNoFrameskip-v4", 1.0) is None
    assert human_normalised("ALE/Pong-v5", -20.7) == 0 == human_normalised("ale_py:ALE/Pong-v5", -20.7)
    assert human_normalised("MinAtar/Breakout-v1", 1.0) is None
