"""What a replay records about each unroll that it holds, at the unroll's index in the storage."""

from typing import Any

import numpy as np

from replay.array_bytes import array_from_bytes, array_to_bytes


class UnrollRecords:
    """Arrays `[capacity]` with one entry per unroll; only the first `len(records)` entries are in use."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.added = 0  # unrolls added so far, including those that have been replaced
        self.order = np.zeros(capacity, dtype=np.int64)  # how many unrolls were added before this one
        self.times_drawn = np.zeros(capacity, dtype=np.int64)
        self.distances = np.zeros(capacity)  # when last ranked; 0 for an unroll that was never ranked

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def record_new(self, index: int) -> None:
        """A new unroll is now at `index`."""
        self.order[index] = self.added
        self.times_drawn[index] = 0
        self.distances[index] = 0.0
        self.added += 1

    def state_dict(self) -> dict[str, Any]:
        return {
            "added": self.added,
            "order": array_to_bytes(self.order[: len(self)]),
            "times_drawn": array_to_bytes(self.times_drawn[: len(self)]),
            "remembered": array_to_bytes(self.distances[: len(self)]),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.added = state["added"]
        self.order[: len(self)] = array_from_bytes(state["order"], np.int64)
        self.times_drawn[: len(self)] = array_from_bytes(state["times_drawn"], np.int64)
        # Older runs saved the distances of elite replays only. No other replay reads them.
        if "remembered" in state:
            self.distances[: len(self)] = array_from_bytes(state["remembered"], np.float64)
