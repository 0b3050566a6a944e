"""Experience replay, put together from a storage and rules."""

import json
from typing import Any

import numpy as np

from replay.interface import Drawn
from replay.row_layout import Rows
from replay.rules import ReplayRules
from replay.storage import Storage, UnrollRecords


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
        self._storage = storage
        self._selection, self._eviction, self._observers = rules
        self._warmup_unrolls = warmup_unrolls
        self._rng = rng
        self._records = UnrollRecords(storage.capacity)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def capacity(self) -> int:
        return self._storage.capacity

    def unrolls_needed(self) -> int:
        return max(0, self._warmup_unrolls - len(self))

    def add(self, row: Rows) -> None:
        full = len(self) == self.capacity
        index = self._eviction.index_to_replace(self._records, self._rng) if full else len(self)
        self._storage.put(index, row)
        self._records.record_new(index)
        for observer in self._observers.values():
            observer.observe(row)

    def draw(self, out: Rows, updates: int) -> Drawn:
        selected = self._selection.select(self._storage, self._records, self._rng, updates, out)
        times_drawn = self._records.times_drawn
        times_drawn[selected.indices] += 1
        mean_times_drawn = float(times_drawn[selected.indices].mean())
        return Drawn(mean_times_drawn, selected.candidates, selected.distance_drawn, selected.distance_candidates)

    def state_dict(self) -> dict[str, Any]:
        return {
            "storage": self._storage.state_dict(),
            **self._records.state_dict(),
            # The generator's state holds integers of 128 bits, which only text keeps exactly.
            "rng": json.dumps(self._rng.bit_generator.state),
            **{name: observer.state_dict() for name, observer in self._observers.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._storage.load_state_dict(state["storage"])
        self._records.load_state_dict(state)
        self._rng.bit_generator.state = json.loads(state["rng"])
        for name, observer in self._observers.items():
            observer.load_state_dict(state[name])
