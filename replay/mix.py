"""One batch, mixed from all replays in their exact shares."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from option_flags import ReplayOptions
from replay.compression import UnrollCodec
from replay.protocol import Replay
from replay.queue import QueueReplay
from replay.standard import StandardReplay
from replay.storage import CompressedStorage, RawStorage, Storage
from replay.trajectory import Rows, UnrollSpec


class Batch(NamedTuple):
    """Unrolls to learn from; valid until the next mix, which reuses the memory."""

    rows: torch.Tensor  # [B, nbytes] uint8
    fresh: NDArray[np.bool_]  # [B], True where the unroll came from a queue


def make_replays(options: ReplayOptions, unroll: UnrollSpec, seed: np.random.SeedSequence) -> list[Replay]:
    """The replays of `--replay_parameters`, each with a random generator of its own."""
    replays: list[Replay] = []
    children = seed.spawn(len(options.replays))
    for spec, share, fill, child in zip(options.replays, options.shares, options.fills, children, strict=True):
        if spec.type == "queue":
            replays.append(QueueReplay(spec.capacity, share, unroll.nbytes))
        else:
            storage = make_storage(options, spec.capacity, unroll)
            replays.append(StandardReplay(storage, share, fill, np.random.default_rng(child)))
    return replays


def make_storage(options: ReplayOptions, capacity: int, unroll: UnrollSpec) -> Storage:
    """Where a replay that is no queue keeps its unrolls."""
    if options.use_replay_compression:
        return CompressedStorage(capacity, UnrollCodec(unroll, options.lz4_compression_level))
    return RawStorage(capacity, unroll.nbytes)


class BatchMix:
    """Passes every unroll on to every replay, and asks each for its share once all can give it.

    The queues open when the others hold enough, so that the first update is mixed as the last one is. Without any
    queue, one update follows every `batch_size` new unrolls.
    """

    def __init__(self, replays: Sequence[Replay], nbytes: int, pin_memory: bool) -> None:
        self.replays = replays
        self._queues = [replay for replay in replays if replay.is_fresh]
        self._others = [replay for replay in replays if not replay.is_fresh]
        self._batch_size = sum(replay.share for replay in replays)
        self._new = 0  # unrolls since the last update; counts only where there is no queue
        self._rows = torch.zeros((self._batch_size, nbytes), dtype=torch.uint8, pin_memory=pin_memory)
        self._fresh = np.concatenate([np.full(replay.share, replay.is_fresh) for replay in replays])

    @property
    def filling(self) -> bool:
        """True while the replays that are no queues hold too little to learn from."""
        return any(replay.missing() for replay in self._others)

    def room(self) -> int:
        """How many unrolls may be added now; 0 when an update has to come first."""
        if self.filling:
            return max(replay.missing() for replay in self._others)
        if self._queues:
            return min(queue.capacity - len(queue) for queue in self._queues)
        return max(0, self._batch_size - self._new)

    def missing(self) -> int:
        """How many unrolls the next batch still waits for: never more than there is room for."""
        if self._queues and not self.filling:
            return max(queue.missing() for queue in self._queues)
        return self.room()

    def add(self, row: Rows) -> None:
        queues = [] if self.filling else self._queues
        for replay in (*self._others, *queues):
            replay.add(row)
        self._new += 1

    def ready(self) -> bool:
        enough_new = bool(self._queues) or self._new >= self._batch_size
        return enough_new and not any(replay.missing() for replay in self.replays)

    def mix(self) -> Batch:
        """One batch, the shares side by side in the order of the replays."""
        rows, start = self._rows.numpy(), 0
        for replay in self.replays:
            replay.draw(rows[start : start + replay.share])
            start += replay.share
        self._new = 0
        return Batch(self._rows, self._fresh)

    def state_dict(self) -> dict[str, Any]:
        return {"new": self._new, "replays": [replay.state_dict() for replay in self.replays]}

    def load_state_dict(self, state: dict[str, Any], queues_too: bool = True) -> None:
        """Go on from there; without the queues where their unrolls have been learned from since."""
        self._new = state["new"]
        for replay, replay_state in zip(self.replays, state["replays"], strict=True):
            if queues_too or not replay.is_fresh:
                replay.load_state_dict(replay_state)
