"""Replays of every type over numbered rows, ranked by made-up distances in place of a network's."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from options.replay_options import ReplaySpec
from replay.attentive import AttentiveReplay
from replay.compression import UnrollCodec
from replay.elite import EliteReplay
from replay.protocol import Replay
from replay.queue import QueueReplay
from replay.standard import StandardReplay
from replay.storage import CompressedStorage, RawStorage, Storage
from replay.unroll_layout import Rows
from tests.replay.numbered_rows import LAYOUT, NBYTES, numbers

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
        {"type": "elite", "elite_sampling_strategy": strategy, "insert_strategy": insert, "elite_batch_size": 3}
        for strategy in ("lowest", "stratified", "lowest_least_sampled", "stratified_least_sampled")
        for insert in ("oldest", "elite_insertion")
    ),
]


def scattered(of: list[int]) -> list[float]:
    """As good as random, and for each row always the same."""
    return [number * 2654435761 % 2**32 / 2**32 for number in of]


def make_replay(
    options: ReplaySpec,
    share: int,
    rng: np.random.Generator,
    *,
    fill: int | None = None,
    planned_updates: int = 10,
    distances: ToDistances = scattered,
    make_storage: MakeStorage = raw,
) -> Replay:
    def nearness(rows: Rows, newest: NDArray[np.uint8]) -> NDArray[np.float64]:
        assert newest.shape[1:] == (LAYOUT.frame_stack, *LAYOUT.frame_shape[1:])
        return drift(rows)

    def drift(rows: Rows) -> NDArray[np.float64]:
        return np.array(distances(numbers(rows)), np.float64)

    if options.type == "queue":
        return QueueReplay(options.capacity, share, NBYTES)
    storage, fill = make_storage(options.capacity), share if fill is None else fill
    match options.type:
        case "standard":
            return StandardReplay(storage, share, fill, rng)
        case "attentive":
            return AttentiveReplay(storage, share, fill, rng, options, planned_updates, LAYOUT, nearness)
        case _:
            return EliteReplay(storage, share, fill, rng, options, planned_updates, NBYTES, drift)
