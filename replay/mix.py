"""One batch, mixed from all replays in their exact shares."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from replay.protocol import Drawn, Replay
from replay.unroll_layout import Rows, UnrollLayout


class ReplayDraw(NamedTuple):
    """What one replay gave to a batch."""

    drawn: Drawn
    age: float  # mean, in updates, of the policies that played it
    seconds: float


class Batch(NamedTuple):
    """Unrolls to learn from; valid until the next mix, which reuses the memory."""

    rows: torch.Tensor  # [B, nbytes] uint8
    fresh: NDArray[np.bool_]  # [B], True where the unroll came from a queue
    draws: tuple[ReplayDraw, ...] = ()  # one for each replay
    uploaded: torch.Tensor | None = None  # the rows on the learner's device, where they are there already


class Mix(Protocol):
    """All replays as the training loop knows them: unrolls go in, batches come out, here or in the background."""

    @property
    def replays(self) -> Sequence[Replay]: ...

    @property
    def is_warming_up(self) -> bool:
        """True while the replays that are no queues hold too little to learn from."""

    def unrolls_accepted(self) -> int:
        """How many unrolls may be added now; 0 when an update has to come first."""

    def unrolls_needed(self) -> int:
        """How many unrolls the next batch still waits for: never more than there is room for."""

    def add(self, row: Rows) -> None:
        """Keep a copy of `row [nbytes]` in every replay that takes it."""

    def ready(self) -> bool:
        """Whether a batch may be learned from."""

    def mix(self, updates: int) -> Batch:
        """One batch for an update that follows `updates` others."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], queues_too: bool = True) -> None:
        """Go on from there; without the queues where their unrolls have been learned from since."""

    def close(self) -> None: ...


class BatchMix:
    """Passes every unroll on to every replay, and asks each for its share once all can give it.

    The queues open when the others hold enough, so that the first update is mixed as the last one is. Without any
    queue, one update follows every `batch_size` new unrolls.
    """

    def __init__(self, replays: Sequence[Replay], layout: UnrollLayout, pin_memory: bool = False) -> None:
        self.replays = replays
        self._layout = layout
        self._pin_memory = pin_memory
        self._queues = [replay for replay in replays if replay.is_fresh]
        self._others = [replay for replay in replays if not replay.is_fresh]
        self._new = 0  # unrolls since the last update; counts only where there is no queue
        self.fresh = np.concatenate([np.full(replay.share, replay.is_fresh) for replay in replays])
        self._rows = self.buffer()

    @property
    def batch_size(self) -> int:
        return len(self.fresh)

    def buffer(self) -> torch.Tensor:
        """Memory for one batch."""
        return torch.zeros((self.batch_size, self._layout.nbytes), dtype=torch.uint8, pin_memory=self._pin_memory)

    @property
    def is_warming_up(self) -> bool:
        return any(replay.unrolls_needed() for replay in self._others)

    def unrolls_accepted(self) -> int:
        if self.is_warming_up:
            return max(replay.unrolls_needed() for replay in self._others)
        if self._queues:
            return min(queue.capacity - len(queue) for queue in self._queues)
        return max(0, self.batch_size - self._new)

    def unrolls_needed(self) -> int:
        if self._queues and not self.is_warming_up:
            return max(queue.unrolls_needed() for queue in self._queues)
        return self.unrolls_accepted()

    def add(self, row: Rows) -> None:
        queues = [] if self.is_warming_up else self._queues
        for replay in (*self._others, *queues):
            replay.add(row)
        self._new += 1

    def ready(self) -> bool:
        enough_new = bool(self._queues) or self._new >= self.batch_size
        return enough_new and not any(replay.unrolls_needed() for replay in self.replays)

    def mix(self, updates: int) -> Batch:
        return self.mix_into(self._rows, updates)

    def mix_into(self, buffer: torch.Tensor, updates: int) -> Batch:
        """The shares side by side in the order of the replays."""
        rows, start, draws = buffer.numpy(), 0, []
        for replay in self.replays:
            begun = time.perf_counter()
            part = rows[start : start + replay.share]
            drawn = replay.draw(part, updates)
            age = updates - float(self._layout.array(part, "weight_version").mean())
            draws.append(ReplayDraw(drawn, age, time.perf_counter() - begun))
            start += replay.share
        self._new = 0
        return Batch(buffer, self.fresh, tuple(draws))

    def state_dict(self) -> dict[str, Any]:
        return {"new": self._new, "replays": [replay.state_dict() for replay in self.replays], "prepared": []}

    def load_state_dict(self, state: dict[str, Any], queues_too: bool = True) -> None:
        self._new = state["new"]
        for replay, replay_state in zip(self.replays, state["replays"], strict=True):
            if queues_too or not replay.is_fresh:
                replay.load_state_dict(replay_state)

    def close(self) -> None:
        """Nothing goes on in the background."""
