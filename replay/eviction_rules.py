"""Which unroll a full replay gives up for a new one."""

from typing import Protocol

import numpy as np

from replay.unroll_records import UnrollRecords


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
