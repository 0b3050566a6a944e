"""What a set of finished games says of an agent."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000  # of the bootstrap
INTERVAL = (2.5, 97.5)  # percentiles between which 95% of the resampled means lie


class Summary(NamedTuple):
    """Of the returns of n games; what a single game does not tell is None."""

    mean: float
    median: float
    std: float | None  # of the games, with n − 1 in the divisor
    interval: tuple[float, float] | None  # 95% bootstrap interval of the mean
    min: float
    max: float


def summarise(returns: Sequence[float]) -> Summary:
    """The interval is drawn with a generator of its own, so that equal returns give an equal summary."""
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
    """Where the mean of n such games would lie in 95 of 100 cases, by drawing n of them anew many times."""
    pool = np.asarray(values, dtype=np.float64)
    means = [pool[rng.integers(len(pool), size=len(pool))].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, INTERVAL)
    return float(low), float(high)


def best_median_worst(returns: Sequence[float]) -> dict[str, int]:
    """Which games those are; of equal ones the first, and one game only once, under the first name that fits it."""
    order = sorted(range(len(returns)), key=lambda game: (-returns[game], game))
    chosen = {"best": order[0], "worst": order[-1], "median": order[(len(order) - 1) // 2]}
    found: dict[str, int] = {}
    for name, game in chosen.items():
        if game not in found.values():
            found[name] = game
    return found
