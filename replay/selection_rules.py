"""Which unrolls a replay gives to a batch."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from replay.candidate_strategies import Strategy
from replay.row_layout import Rows
from replay.storage import Storage
from replay.unroll_records import UnrollRecords

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
