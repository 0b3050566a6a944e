"""A replay that looks at more unrolls than it gives, ranks them by a distance, and gives some of the nearest."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from options.replay_options import ReplaySpec
from replay.protocol import Drawn
from replay.selection_rules import Strategy
from replay.standard import StandardReplay
from replay.storage import Storage
from replay.unroll_layout import Rows


class RankedReplay(StandardReplay):
    """Of λ times its share, drawn uniformly, it keeps its share.

    λ falls in a straight line from `lambda_batch_multiplier` to 1 over `alfa_annealing_factor` times the planned
    updates; at 1 there is nothing to choose from, and nothing is ranked.
    """

    def __init__(
        self,
        storage: Storage,
        share: int,
        fill_before_draw: int,
        rng: np.random.Generator,
        options: ReplaySpec,
        planned_updates: int,
        nbytes: int,
        strategy: Strategy,
    ) -> None:
        super().__init__(storage, share, fill_before_draw, rng)
        self._first_multiplier = options.lambda_batch_multiplier
        self._annealing_updates = options.alfa_annealing_factor * planned_updates
        self._strategy = strategy
        self._candidates: Rows = np.zeros((options.most_candidates(share), nbytes), dtype=np.uint8)

    @abstractmethod
    def _distances(self, rows: Rows) -> NDArray[np.float64]:
        """`rows [m, nbytes]` → `[m]`, smaller is nearer."""

    def _remember(self, indices: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
        """What was found out about the unrolls at `indices [m]`."""

    def multiplier(self, updates: int) -> float:
        """λ after so many updates."""
        first = self._first_multiplier
        return max(1.0, first - (first - 1) * updates / self._annealing_updates)

    def draw(self, out: Rows, updates: int) -> Drawn:
        count = min(len(self), max(self.share, int(self.multiplier(updates) * self.share)))
        if count == self.share:
            return super().draw(out, updates)
        indices, rows = self._uniform(count), self._candidates[:count]
        self._storage.copy_to(indices, rows)
        distances = self._distances(rows)
        self._remember(indices, distances)
        picked = self._strategy(distances, self._times_drawn[indices], self._order[indices], self.share)
        for target, candidate in zip(out, picked, strict=True):
            target[:] = rows[candidate]
        return Drawn(
            times_drawn=self._count(indices[picked]),
            candidates=count / self.share,
            distance_drawn=float(distances[picked].mean()),
            distance_candidates=float(distances.mean()),
        )
