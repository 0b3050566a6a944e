"""Replays of every type, with numbered rows as unrolls and distances from a given function instead of a network."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.ranking import Ranking
from options.batch_uses import ONCE, BatchUses
from options.replay_options import ReplaySpec
from replay.interface import Replay
from replay.newest_states import States
from replay.replay_buffer import ReplayBuffer
from replay.row_layout import Rows
from replay.storage import CompressedStorage, RawStorage, Storage, UnrollCodec
from tests.replay.numbered_rows import LAYOUT, NBYTES, numbers
from training.make_replays import make_queue, replay_rules

MakeStorage = Callable[[int], Storage]  # capacity → a storage of numbered rows
ToDistances = Callable[[list[int]], Sequence[float]]  # numbers of the candidates → their distances


def raw(capacity: int) -> Storage:
    return RawStorage(capacity, NBYTES)


def compressed(capacity: int) -> Storage:
    return CompressedStorage(capacity, UnrollCodec(LAYOUT, level=0))


STORAGES = [raw, compressed]
EVERY_KIND: list[dict[str, Any]] = [
    {"type": "queue"},
    {"type": "standard"},
    {"type": "attentive"},
    *(
        {"type": "elite", "elite_sampling_strategy": strategy}
        for strategy in ("lowest", "stratified", "lowest_least_sampled", "stratified_least_sampled")
    ),
    {"type": "elite", "insert_strategy": "elite_insertion", "elite_batch_size": 3},
]


def scattered(of: list[int]) -> list[float]:
    """Pseudo-random distances; a row has the same distance every time."""
    return [number * 2654435761 % 2**32 / 2**32 for number in of]


class GivenDistances(Ranking):
    """Ranks by a function of the rows' numbers instead of a network."""

    def __init__(self, distances: ToDistances) -> None:
        self._of = distances

    def drift(self, rows: Rows) -> NDArray[np.float64]:
        return np.array(self._of(numbers(rows)), np.float64)

    def distance_to_newest(self, rows: Rows, newest: States) -> NDArray[np.float64]:
        assert newest.stacks.shape[1:] == (LAYOUT.frame_stack, *LAYOUT.frame_shape[1:])
        return self.drift(rows)


def make_replay(
    options: ReplaySpec,
    share: int,
    rng: np.random.Generator,
    *,
    warmup_unrolls: int | None = None,
    planned_updates: int = 10,
    distances: ToDistances = scattered,
    make_storage: MakeStorage = raw,
    batch_uses: BatchUses = ONCE,
) -> Replay:
    """A replay with the rules of its type; without `warmup_unrolls` it needs as many unrolls as its share."""
    if options.type == "queue":
        return make_queue(options.capacity, share, NBYTES, batch_uses)
    rules = replay_rules(options, share, LAYOUT, GivenDistances(distances), planned_updates)
    storage = make_storage(options.capacity)
    warmup_unrolls = share if warmup_unrolls is None else warmup_unrolls
    return ReplayBuffer(options.type, storage, rules, share, warmup_unrolls, rng)
