"""Elite experience replay: what the network still sees as it did when the unroll was played."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from options.replay_options import ReplaySpec
from replay.array_bytes import array_from_bytes, array_to_bytes
from replay.ranked import RankedReplay
from replay.selection_rules import STRATEGIES
from replay.storage import Storage
from replay.unroll_layout import Rows

# Candidates [m, nbytes] → how far the present network has drifted from what acted in each, [m].
Drift = Callable[[Rows], NDArray[np.float64]]


class EliteReplay(RankedReplay):
    """Keeps the candidates that drifted least, by one of four strategies.

    With elite insertion a full replay gives up the most drifted of some unrolls instead of the oldest of all.
    """

    name = "elite"

    def __init__(
        self,
        storage: Storage,
        share: int,
        fill_before_draw: int,
        rng: np.random.Generator,
        options: ReplaySpec,
        planned_updates: int,
        nbytes: int,
        drift: Drift,
    ) -> None:
        strategy = STRATEGIES[options.elite_sampling_strategy]
        super().__init__(storage, share, fill_before_draw, rng, options, planned_updates, nbytes, strategy)
        self._drift = drift
        self._looked_at = options.elite_batch_size if options.insert_strategy == "elite_insertion" else 0
        self._remembered = np.zeros(storage.capacity)  # the drift when last ranked; a new unroll has none

    def add(self, row: Rows) -> None:
        if self._looked_at and len(self) == self.capacity:
            among = self._uniform(min(self._looked_at, self.capacity))
            index = int(among[np.lexsort((self._order[among], -self._remembered[among]))[0]])
        else:
            index = self._added % self.capacity
        self._put(index, row)
        self._remembered[index] = 0.0

    def _distances(self, rows: Rows) -> NDArray[np.float64]:
        return self._drift(rows)

    def _remember(self, indices: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
        self._remembered[indices] = np.nan_to_num(distances, nan=np.inf)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "remembered": array_to_bytes(self._remembered[: len(self)])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._remembered[: len(self)] = array_from_bytes(state["remembered"], np.float64)
