"""Batches mixed from all replays: each replay gives its exact share."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from replay.interface import Drawn, Replay
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout


class ReplayDraw(NamedTuple):
    """Figures of one replay's part of a batch."""

    drawn: Drawn
    age: float  # mean policy lag of the unrolls, in updates
    seconds: float  # that the draw took


class Batch(NamedTuple):
    """Unrolls for one update. Valid until the next call of `mix`, which may reuse the memory."""

    rows: torch.Tensor  # [B, nbytes] uint8
    fresh: NDArray[np.bool_]  # [B], True for unrolls from a queue
    draws: tuple[ReplayDraw, ...] = ()  # one for each replay
    uploaded: torch.Tensor | None = None  # a copy of the rows on the learner's device, if there is one

    @property
    def is_used_again(self) -> bool:
        """Whether a circular queue gives all of it for the second time or later."""
        return bool(self.fresh.all()) and len(self.draws) == 1 and self.draws[0].drawn.times_drawn > 1


class Mix(Protocol):
    """The interface of the replays for the training loop: unrolls go in, batches come out.

    The loop adds at most `unrolls_accepted()` unrolls, and takes a batch whenever `ready()` is true. If no unroll is
    accepted, a batch is ready, so there is no deadlock.
    """

    @property
    def replays(self) -> Sequence[Replay]:
        """For reports."""

    @property
    def is_warming_up(self) -> bool:
        """True until all replays other than queues hold enough unrolls for the first batch."""

    def unrolls_accepted(self) -> int:
        """How many unrolls may be added now; 0 if an update has to come first (backpressure)."""

    def unrolls_needed(self) -> int:
        """How many more unrolls the next batch needs; never more than are accepted."""

    def unrolls_waiting(self) -> int:
        """Unrolls that were added and are not learned from yet; less than 0 where the warm-up takes some first."""

    def add(self, row: Rows) -> None:
        """Keep copies of an unroll, `row [nbytes]`, in all replays; during warm-up in all but the queues."""

    def ready(self) -> bool:
        """Whether `mix` may be called."""

    def mix(self, updates: int) -> Batch:
        """The next batch; the learner has made `updates` so far."""

    def state_dict(self) -> dict[str, Any]:
        """The state of all replays, not copied: write it to the file before the next `add`."""

    def load_state_dict(self, state: dict[str, Any], with_queues: bool = True) -> None:
        """Load a saved state. Without `with_queues`, the queues start empty and no prepared batch is loaded."""

    def close(self) -> None:
        """Stop the background thread, if there is one."""


class BatchMix:
    """Adds every unroll to every replay, and mixes a batch on demand.

    Queues accept unrolls after the warm-up of the other replays only, so that all updates have the same mixture. If
    there is no queue, one update follows every `batch_size` new unrolls.
    """

    def __init__(self, replays: Sequence[Replay], layout: UnrollLayout, pin_memory: bool = False) -> None:
        self.replays = replays
        self._layout = layout
        self._pin_memory = pin_memory
        self._queues = [replay for replay in replays if replay.is_fresh]
        self._others = [replay for replay in replays if not replay.is_fresh]
        self._new_unrolls = 0  # unrolls since the last batch; used only without a queue
        self.fresh = np.concatenate([np.full(replay.share, replay.is_fresh) for replay in replays])
        self._rows = self.buffer()

    @property
    def batch_size(self) -> int:
        return len(self.fresh)

    def buffer(self) -> torch.Tensor:
        """Memory for one batch, `[B, nbytes]`."""
        return torch.zeros((self.batch_size, self._layout.nbytes), dtype=torch.uint8, pin_memory=self._pin_memory)

    @property
    def is_warming_up(self) -> bool:
        return any(replay.unrolls_needed() for replay in self._others)

    def unrolls_accepted(self) -> int:
        if self.is_warming_up:
            return max(replay.unrolls_needed() for replay in self._others)
        if self._queues:
            return min(queue.capacity - len(queue) for queue in self._queues)
        return max(0, self.batch_size - self._new_unrolls)

    def unrolls_needed(self) -> int:
        if self._queues and not self.is_warming_up:
            return max(queue.unrolls_needed() for queue in self._queues)
        return self.unrolls_accepted()

    def unrolls_waiting(self, batches_ahead: int = 0) -> int:
        """Includes those of batches that were mixed ahead."""
        if self.is_warming_up:
            return -self.unrolls_accepted()
        if self._queues:
            return min(len(queue) + batches_ahead * queue.share for queue in self._queues)
        return self._new_unrolls + batches_ahead * self.batch_size

    def add(self, row: Rows) -> None:
        queues = [] if self.is_warming_up else self._queues
        for replay in (*self._others, *queues):
            replay.add(row)
        self._new_unrolls += 1

    def ready(self) -> bool:
        enough_new = bool(self._queues) or self._new_unrolls >= self.batch_size
        return enough_new and not any(replay.unrolls_needed() for replay in self.replays)

    def mix(self, updates: int) -> Batch:
        return self.mix_into(self._rows, updates)

    def mix_into(self, buffer: torch.Tensor, updates: int) -> Batch:
        """Like `mix`, but into `buffer [B, nbytes]`: the shares one after another, in the order of the replays."""
        rows, start, draws = buffer.numpy(), 0, []
        for replay in self.replays:
            started = time.perf_counter()
            part = rows[start : start + replay.share]
            drawn = replay.draw(part, updates)
            age = updates - float(self._layout.array(part, "weight_version").mean())
            draws.append(ReplayDraw(drawn, age, time.perf_counter() - started))
            start += replay.share
        self._new_unrolls = 0
        return Batch(buffer, self.fresh, tuple(draws))

    def state_dict(self) -> dict[str, Any]:
        return {"new": self._new_unrolls, "replays": [replay.state_dict() for replay in self.replays], "prepared": []}

    def load_state_dict(self, state: dict[str, Any], with_queues: bool = True) -> None:
        self._new_unrolls = state["new"]
        for replay, replay_state in zip(self.replays, state["replays"], strict=True):
            if with_queues or not replay.is_fresh:
                replay.load_state_dict(replay_state)

    def close(self) -> None:
        """Nothing runs in the background."""
