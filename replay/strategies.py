"""Which of its candidates an elite or attentive replay gives to a batch."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

Distances = NDArray[np.float64]
Integers = NDArray[np.int64]
# Which n of m candidates to select: `distances`, `times_drawn` and `order`, `[m]` each, and 1 ≤ n ≤ m → the indices
# `[n]` of n different candidates. `order` is the order of insertion: smaller is older, and no two are equal.
Strategy = Callable[[Distances, Integers, Integers, int], Integers]


def select(
    distances: Distances, times_drawn: Integers, order: Integers, n: int, *, stratified: bool, least_sampled: bool
) -> Integers:
    """The n nearest, or the nearest of each of n strata: equal parts, up to rounding, of those sorted by distance.

    With `least_sampled`, those drawn the fewest times, and of those drawn equally often the nearest. Of two candidates
    that tie, the older one is selected first. NaN is farther than any other distance.
    """
    m = len(distances)
    if not distances.shape == times_drawn.shape == order.shape == (m,) or not 1 <= n <= m:
        shapes = distances.shape, times_drawn.shape, order.shape
        raise ValueError(f"distances, times_drawn and order must be [m], and 1 ≤ n ≤ m, not {shapes} and {n}")
    nearest_first = np.lexsort((order, distances))  # sorts by the last key first; NaN comes last
    times = times_drawn[nearest_first] if least_sampled else np.zeros(m)
    # Both sorts are stable: those with equal counts stay sorted by distance.
    if not stratified:
        return nearest_first[np.argsort(times, kind="stable")[:n]]
    starts = np.arange(n) * m // n  # of the strata, none of which is empty
    stratum = np.searchsorted(starts, np.arange(m), side="right")
    return nearest_first[np.lexsort((times, stratum))[starts]]


STRATEGIES: dict[str, Strategy] = {
    "lowest": partial(select, stratified=False, least_sampled=False),
    "stratified": partial(select, stratified=True, least_sampled=False),
    "lowest_least_sampled": partial(select, stratified=False, least_sampled=True),
    "stratified_least_sampled": partial(select, stratified=True, least_sampled=True),
}
