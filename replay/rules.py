"""The rules of a replay: which unrolls it gives to a batch and, when it is full, which one a new one replaces."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from replay.row_layout import Rows
from replay.storage import Storage, UnrollRecords

Distances = NDArray[np.float64]
Integers = NDArray[np.int64]
# Which n of m candidates to select: `distances`, `times_drawn` and `order`, `[m]` each, and 1 ≤ n ≤ m → the indices
# `[n]` of n different candidates. `order` is the order of insertion: smaller is older, and no two are equal. Of two
# candidates that tie, the older one is selected first. NaN is farther than any other distance.
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


Distance = Callable[[Rows], NDArray[np.float64]]  # unrolls [m, nbytes] → [m], smaller is nearer


class Selected(NamedTuple):
    """The unrolls of one draw."""

    indices: NDArray[np.int64]  # [n], in the storage
    candidates: float = 1.0  # candidates for each selected unroll: λ, rounded to a whole number of them
    distance_drawn: float | None = None  # means of the selected unrolls and of all candidates; None without a ranking
    distance_candidates: float | None = None


class SelectionRule(Protocol):
    def select(
        self, storage: Storage, records: UnrollRecords, rng: np.random.Generator, updates: int, out: Rows
    ) -> Selected:
        """Write n different unrolls of the storage to `out [n, nbytes]`; the learner has made `updates` so far."""


class Uniform:
    """Every unroll is equally likely."""

    def select(
        self, storage: Storage, records: UnrollRecords, rng: np.random.Generator, updates: int, out: Rows
    ) -> Selected:
        indices = rng.choice(len(records), len(out), replace=False)
        storage.copy_to(indices, out)
        return Selected(indices)


class Ranked:
    """Draws λ·n candidates uniformly; a strategy selects n of them by their distances.

    λ falls linearly from `multiplier` to 1 over `annealing_updates` updates. At λ = 1 the draw is uniform, and nothing
    is ranked. `max_candidates` is the largest number of candidates of one draw, `nbytes` the size of an unroll.
    """

    def __init__(
        self,
        distance: Distance,
        strategy: Strategy,
        multiplier: float,
        annealing_updates: float,
        max_candidates: int,
        nbytes: int,
    ) -> None:
        self._distance = distance
        self._strategy = strategy
        self._multiplier = multiplier
        self._annealing_updates = annealing_updates
        self._candidates: Rows = np.zeros((max_candidates, nbytes), dtype=np.uint8)
        self._uniform = Uniform()

    def select(
        self, storage: Storage, records: UnrollRecords, rng: np.random.Generator, updates: int, out: Rows
    ) -> Selected:
        share = len(out)
        count = min(len(records), max(share, int(self._multiplier_after(updates) * share)))
        if count == share:
            return self._uniform.select(storage, records, rng, updates, out)
        rows = self._candidates[:count]
        indices = self._uniform.select(storage, records, rng, updates, rows).indices
        distances = self._distance(rows)
        records.distances[indices] = np.nan_to_num(distances, nan=np.inf)
        picked = self._strategy(distances, records.times_drawn[indices], records.order[indices], share)
        for target, candidate in zip(out, picked, strict=True):
            target[:] = rows[candidate]
        return Selected(indices[picked], count / share, float(distances[picked].mean()), float(distances.mean()))

    def _multiplier_after(self, updates: int) -> float:
        """λ after `updates` updates."""
        first = self._multiplier
        return max(1.0, first - (first - 1) * updates / self._annealing_updates)


class EvictionRule(Protocol):
    def index_to_replace(self, records: UnrollRecords, rng: np.random.Generator) -> int:
        """The index of the unroll to replace; the replay is full."""


class Oldest:
    """Replaces the unroll that was added first: the storage is a ring."""

    def index_to_replace(self, records: UnrollRecords, rng: np.random.Generator) -> int:
        return records.added % records.capacity


class MostDrifted:
    """Elite insertion: draws `count` unrolls and replaces the one that was farthest when it was last ranked.

    Of equally far unrolls it replaces the oldest. An unroll that was never ranked has the distance 0.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def index_to_replace(self, records: UnrollRecords, rng: np.random.Generator) -> int:
        drawn = rng.choice(len(records), min(self._count, len(records)), replace=False)
        farthest_first = np.lexsort((records.order[drawn], -records.distances[drawn]))
        return int(drawn[farthest_first[0]])


class Observer(Protocol):
    """Gets every unroll that is added to a replay; its state is saved with the replay's."""

    def observe(self, row: Rows) -> None:
        """A new unroll, `row [nbytes]`; keep copies only."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class ReplayRules(NamedTuple):
    """What differs between standard, attentive and elite replays."""

    selection: SelectionRule
    eviction: EvictionRule
    observers: Mapping[str, Observer] = MappingProxyType({})  # saved under their names
