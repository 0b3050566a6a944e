"""Statistics of finished games: mean, median, bootstrap interval, human-normalised score."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evaluation.parallel_games import GameResult
from reports.published_scores import human_normalised
from reports.score_aggregates import RESAMPLES, interval_of


class Summary(NamedTuple):
    """Statistics of the returns of n games. With a single game, `std` and `interval` are None."""

    mean: float
    median: float
    std: float | None  # sample standard deviation, with n − 1 in the divisor
    interval: tuple[float, float] | None  # 95% bootstrap interval of the mean
    min: float
    max: float


def score_figures(results: Sequence[GameResult], env: str) -> dict[str, Any]:
    """The statistics of some games, under the names that result files use."""
    summary = summarise([result.return_ for result in results])
    return {
        "cut_off": sum(result.cut_off for result in results),
        "return_mean": summary.mean,
        "return_mean_95": summary.interval,
        "return_median": summary.median,
        "return_std": summary.std,
        "return_min": summary.min,
        "return_max": summary.max,
        "human_normalised": human_normalised(env, summary.mean),
        "length_mean": float(np.mean([result.length for result in results])),
    }


def summarise(returns: Sequence[float]) -> Summary:
    """The bootstrap uses its own fixed seed, so equal returns give equal summaries."""
    values = np.asarray(returns, dtype=np.float64)
    several = len(values) > 1
    return Summary(
        mean=float(values.mean()),
        median=float(np.median(values)),
        std=float(values.std(ddof=1)) if several else None,
        interval=bootstrap_interval(values.tolist(), np.random.default_rng(0)) if several else None,
        min=float(values.min()),
        max=float(values.max()),
    )


def bootstrap_interval(values: Sequence[float], rng: np.random.Generator) -> tuple[float, float]:
    """The 95% interval of the mean, from the means of many samples of n values drawn with replacement."""
    pool = np.asarray(values, dtype=np.float64)
    means = [pool[rng.integers(len(pool), size=len(pool))].mean() for _ in range(RESAMPLES)]
    return interval_of(np.array(means))


def best_median_worst(returns: Sequence[float]) -> dict[str, int]:
    """The indices of the best, the worst and the median game.

    Of equal returns, the first game is the best one and the last game the worst one. No game appears twice: with fewer
    than three games there is no median, and with one game no worst.
    """
    order = sorted(range(len(returns)), key=lambda game: (-returns[game], game))
    chosen = {"best": order[0], "worst": order[-1], "median": order[(len(order) - 1) // 2]}
    found: dict[str, int] = {}
    for name, game in chosen.items():
        if game not in found.values():
            found[name] = game
    return found
