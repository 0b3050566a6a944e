"""Replays of every type, with numbered rows as unrolls and distances from a given function instead of a network."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from options.learning_options import ONCE, BatchUses
from options.replay_options import ReplaySpec
from replay.mix import Replay
from replay.newest_states import NewestStates
from replay.queue import QueueReplay
from replay.replay_buffer import ReplayBuffer
from replay.row_layout import Rows
from replay.storage import CompressedStorage, RawStorage, Storage, UnrollCodec
from tests.replay.numbered_rows import LAYOUT, NBYTES, numbers
from training.make_replays import replay_rules

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
        return QueueReplay(options.capacity, share, NBYTES, batch_uses.uses, batch_uses.first_uses)
    newest = NewestStates(LAYOUT) if options.type == "attentive" else None

    def distance(rows: Rows) -> NDArray[np.float64]:
        if newest is not None:
            assert newest.states().stacks.shape[1:] == (LAYOUT.frame_stack, *LAYOUT.frame_shape[1:])
        return np.array(distances(numbers(rows)), np.float64)

    rules = replay_rules(options, distance, newest, planned_updates)
    storage = make_storage(options.capacity)
    warmup_unrolls = share if warmup_unrolls is None else warmup_unrolls
    return ReplayBuffer(options.type, storage, rules, share, warmup_unrolls, rng)
