"""Strategies: which n of m candidates to select, by their distances and by how often they were drawn before.

All have the same signature: `distances`, `times_drawn` and `order`, `[m]` each, and 1 ≤ n ≤ m → the indices `[n]` of n
different candidates. `order` is the order of insertion: smaller is older, and no two are equal. Of two candidates that
tie, the older one is selected first. NaN is farther than any other distance.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Distances = NDArray[np.float64]
Integers = NDArray[np.int64]
Strategy = Callable[[Distances, Integers, Integers, int], Integers]


def lowest(distances: Distances, times_drawn: Integers, order: Integers, n: int) -> Integers:
    """The n nearest, the nearest first."""
    _check(distances, times_drawn, order, n)
    return _nearest_first(distances, order)[:n]


def stratified(distances: Distances, times_drawn: Integers, order: Integers, n: int) -> Integers:
    """The nearest of each of n strata: equal parts, up to rounding, of the candidates sorted by distance."""
    _check(distances, times_drawn, order, n)
    return _nearest_first(distances, order)[_stratum_starts(len(distances), n)]


def lowest_least_sampled(distances: Distances, times_drawn: Integers, order: Integers, n: int) -> Integers:
    """The n drawn the fewest times; of those drawn equally often, the nearest."""
    _check(distances, times_drawn, order, n)
    return np.lexsort((order, distances, times_drawn))[:n]


def stratified_least_sampled(distances: Distances, times_drawn: Integers, order: Integers, n: int) -> Integers:
    """The one drawn the fewest times of each stratum of `stratified`; of those drawn equally often, the nearest."""
    _check(distances, times_drawn, order, n)
    nearest_first = _nearest_first(distances, order)
    starts = _stratum_starts(len(distances), n)
    stratum = np.searchsorted(starts, np.arange(len(distances)), side="right")
    # The strata stay in place. Within one, equal counts stay sorted by distance, because lexsort is stable.
    within_strata = np.lexsort((times_drawn[nearest_first], stratum))
    return nearest_first[within_strata[starts]]


STRATEGIES: dict[str, Strategy] = {
    "lowest": lowest,
    "stratified": stratified,
    "lowest_least_sampled": lowest_least_sampled,
    "stratified_least_sampled": stratified_least_sampled,
}


def _nearest_first(distances: Distances, order: Integers) -> Integers:
    return np.lexsort((order, distances))  # sorts by the last key first; NaN comes last


def _stratum_starts(m: int, n: int) -> Integers:
    """The first index of each of n strata of m candidates, ⌊i·m/n⌋: `[n]`. No stratum is empty, because n ≤ m."""
    return np.arange(n) * m // n


def _check(distances: Distances, times_drawn: Integers, order: Integers, n: int) -> None:
    if distances.ndim != 1:
        raise ValueError(f"distances must be [m], not {distances.shape}")
    for name, array in (("times_drawn", times_drawn), ("order", order)):
        if array.shape != distances.shape:
            raise ValueError(f"{name} must be [m] like distances {distances.shape}, not {array.shape}")
    if not 1 <= n <= len(distances):
        raise ValueError(f"n must be from 1 to m = {len(distances)}, not {n}")
