"""All replays but the queue: a storage, and rules for what they draw and what they replace."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.mix import Drawn
from replay.newest_states import NewestStates
from replay.row_layout import Rows, array_from_bytes, array_to_bytes
from replay.storage import Storage

Distances = NDArray[np.float64]
Integers = NDArray[np.int64]
# Which n of m candidates to select: `distances`, `times_drawn` and `order`, `[m]` each, and 1 ≤ n ≤ m → the indices
# `[n]` of n different candidates. `order` is the order of insertion: smaller is older, and no two are equal.
Strategy = Callable[[Distances, Integers, Integers, int], Integers]
Distance = Callable[[Rows], NDArray[np.float64]]  # unrolls [m, nbytes] → [m], smaller is nearer


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


@dataclass(frozen=True)
class Ranking:
    """λ·n candidates are drawn uniformly; the strategy selects n of them by their distances.

    λ falls linearly from `multiplier` to 1 over `annealing_updates` updates. At λ = 1 nothing is ranked.
    """

    distance: Distance
    strategy: Strategy
    multiplier: float
    annealing_updates: float

    def candidates(self, share: int, updates: int) -> int:
        """How many candidates there are for a share of this many unrolls, after `updates` updates."""
        first = self.multiplier
        return max(share, int(max(1.0, first - (first - 1) * updates / self.annealing_updates) * share))


@dataclass(frozen=True)
class ReplayRules:
    """What differs between standard, attentive and elite replays."""

    ranking: Ranking | None = None  # None: every unroll is equally likely to be drawn
    # Elite insertion: of so many unrolls, drawn at random, the one that was farthest when it was last ranked is
    # replaced; 0: the oldest of all is.
    eviction_candidates: int = 0
    newest: NewestStates | None = None  # gets every unroll, and is saved with the replay


class ReplayBuffer:
    """Holds up to `storage.capacity` unrolls and gives `share` of them to each batch.

    It needs `warmup_unrolls` before its first draw. The rules use `rng` for their random choices.
    """

    is_fresh = False

    def __init__(
        self,
        name: str,
        storage: Storage,
        rules: ReplayRules,
        share: int,
        warmup_unrolls: int,
        rng: np.random.Generator,
    ) -> None:
        self.name = name
        self.share = share
        self.capacity = storage.capacity
        self._storage = storage
        self._rules = rules
        self._warmup_unrolls = warmup_unrolls
        self._rng = rng
        self._added = 0  # unrolls added so far, including those that have been replaced
        # Of each unroll, by its index in the storage:
        self._order = np.zeros(self.capacity, np.int64)  # how many unrolls were added before it
        self._times_drawn = np.zeros(self.capacity, np.int64)
        self._distances = np.zeros(self.capacity)  # when last ranked; 0 for an unroll that was never ranked
        self._candidates: Rows | None = None  # memory for the candidates of one draw

    def __len__(self) -> int:
        return min(self._added, self.capacity)

    def unrolls_needed(self) -> int:
        return max(0, self._warmup_unrolls - len(self))

    def add(self, row: Rows) -> None:
        index = self._index_to_replace() if len(self) == self.capacity else len(self)
        self._storage.put(index, row)
        self._order[index], self._times_drawn[index], self._distances[index] = self._added, 0, 0.0
        self._added += 1
        if self._rules.newest is not None:
            self._rules.newest.observe(row)

    def _index_to_replace(self) -> int:
        if not self._rules.eviction_candidates:
            return self._added % self.capacity  # the storage is a ring
        drawn = self._draw_indices(min(self._rules.eviction_candidates, self.capacity))
        farthest_first = np.lexsort((self._order[drawn], -self._distances[drawn]))  # of equally far ones, the oldest
        return int(drawn[farthest_first[0]])

    def _draw_indices(self, count: int) -> NDArray[np.int64]:
        return self._rng.choice(len(self), count, replace=False)

    def draw(self, out: Rows, updates: int) -> Drawn:
        ranking = self._rules.ranking
        most = self.share if ranking is None else min(self.capacity, ranking.candidates(self.share, updates))
        indices = self._draw_indices(min(most, len(self)))
        if ranking is None or len(indices) == self.share:
            self._storage.copy_to(indices, out)
            return Drawn(self._count_draw(indices))
        if self._candidates is None:  # there are never more, because λ falls
            self._candidates = np.empty((most, out.shape[1]), np.uint8)
        rows = self._candidates[: len(indices)]
        self._storage.copy_to(indices, rows)
        distances = ranking.distance(rows)
        self._distances[indices] = np.nan_to_num(distances, nan=np.inf)
        picked = ranking.strategy(distances, self._times_drawn[indices], self._order[indices], self.share)
        for target, candidate in zip(out, picked, strict=True):
            target[:] = rows[candidate]
        return Drawn(
            self._count_draw(indices[picked]),
            candidates=len(indices) / self.share,
            distance_drawn=float(distances[picked].mean()),
            distance_candidates=float(distances.mean()),
        )

    def _count_draw(self, indices: NDArray[np.int64]) -> float:
        """Count the draw of these unrolls; return how often they have been drawn, the mean."""
        self._times_drawn[indices] += 1
        return float(self._times_drawn[indices].mean())

    def state_dict(self) -> dict[str, Any]:
        held = slice(len(self))
        return {
            "storage": self._storage.state_dict(),
            "added": self._added,
            "order": array_to_bytes(self._order[held]),
            "times_drawn": array_to_bytes(self._times_drawn[held]),
            "distances": array_to_bytes(self._distances[held]),
            # The generator's state holds integers of 128 bits, which only text keeps exactly.
            "rng": json.dumps(self._rng.bit_generator.state),
            **({} if self._rules.newest is None else {"newest": self._rules.newest.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._storage.load_state_dict(state["storage"])
        self._added = state["added"]
        held = slice(len(self))
        self._order[held] = array_from_bytes(state["order"], np.int64)
        self._times_drawn[held] = array_from_bytes(state["times_drawn"], np.int64)
        self._distances[held] = array_from_bytes(state["distances"], np.float64)
        self._rng.bit_generator.state = json.loads(state["rng"])
        if self._rules.newest is not None:
            self._rules.newest.load_state_dict(state["newest"])


class DemonstrationReplay(ReplayBuffer):
    """Unrolls of recorded games. What the run plays does not replace them."""

    def fill(self, rows: Rows) -> None:
        """Keep copies of the last ones of `rows [N, nbytes]`, and several of each if they are fewer than the share."""
        for index in range(max(len(rows), self.share)):
            super().add(rows[index % len(rows)])

    def add(self, row: Rows) -> None:
        """Nothing: a mix adds each unroll to all of its replays."""
