"""The interface of replays, and batches mixed from all of them, on demand or in the background, by exact shares."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout

CPU = torch.device("cpu")


class Drawn(NamedTuple):
    """Figures of one draw, for the reports. A mix adds the last two."""

    times_drawn: float  # how often these unrolls have been drawn, this draw included: mean
    candidates: float = 1.0  # candidates for each drawn unroll: λ, rounded to a whole number of candidates
    distance_drawn: float | None = None  # mean of the drawn unrolls; None if nothing was ranked
    distance_candidates: float | None = None  # mean of all candidates
    age: float = 0.0  # mean policy lag of the unrolls, in updates
    seconds: float = 0.0  # that the draw took


class Replay(Protocol):
    """Holds unrolls and gives its share to each batch.

    A queue is *fresh*: the learner has never seen the unrolls that it gives, and a full queue accepts no more unrolls.
    All other replays are *replayed*: when full, they replace an older unroll by the new one.
    """

    name: str
    is_fresh: bool
    share: int  # unrolls that it gives to each batch
    capacity: int

    def __len__(self) -> int: ...

    def unrolls_needed(self) -> int:
        """How many more unrolls it needs before the next draw; 0 if it can be drawn from now."""

    def add(self, row: Rows) -> None:
        """Keep a copy of `row [nbytes]`."""

    def draw(self, out: Rows, updates: int) -> Drawn:
        """Write `share` different unrolls to `out [share, nbytes]`; the learner has made `updates` so far."""

    def state_dict(self) -> dict[str, Any]:
        """Unrolls, counters and random generators. Write them to the file before the next `add`."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Batch(NamedTuple):
    """Unrolls for one update. Valid until the next call of `mix`, which may reuse the memory."""

    rows: torch.Tensor  # [B, nbytes] uint8
    fresh: NDArray[np.bool_]  # [B], True for unrolls from a queue
    draws: tuple[Drawn, ...] = ()  # one for each replay
    uploaded: torch.Tensor | None = None  # a copy of the rows on the learner's device, if there is one

    @property
    def is_used_again(self) -> bool:
        """Whether a circular queue gives all of it for the second time or later."""
        return bool(self.fresh.all()) and len(self.draws) == 1 and self.draws[0].times_drawn > 1


class BatchMix:
    """Adds every unroll to every replay, and mixes a batch on demand.

    The loop adds at most `unrolls_accepted()` unrolls, and takes a batch whenever `ready()` is true. If no unroll is
    accepted, a batch is ready, so there is no deadlock.

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
        """True until all replays other than queues hold enough unrolls for the first batch."""
        return any(replay.unrolls_needed() for replay in self._others)

    def unrolls_accepted(self) -> int:
        """How many unrolls may be added now; 0 if an update has to come first (backpressure)."""
        if self.is_warming_up:
            return max(replay.unrolls_needed() for replay in self._others)
        if self._queues:
            return min(queue.capacity - len(queue) for queue in self._queues)
        return max(0, self.batch_size - self._new_unrolls)

    def unrolls_needed(self) -> int:
        """How many more unrolls the next batch needs; never more than are accepted."""
        if self._queues and not self.is_warming_up:
            return max(queue.unrolls_needed() for queue in self._queues)
        return self.unrolls_accepted()

    def add(self, row: Rows) -> None:
        """Keep copies of an unroll, `row [nbytes]`, in all replays; during warm-up in all but the queues."""
        queues = [] if self.is_warming_up else self._queues
        for replay in (*self._others, *queues):
            replay.add(row)
        self._new_unrolls += 1

    def ready(self) -> bool:
        """Whether `mix` may be called."""
        enough_new = bool(self._queues) or self._new_unrolls >= self.batch_size
        return enough_new and not any(replay.unrolls_needed() for replay in self.replays)

    def mix(self, updates: int) -> Batch:
        """The next batch; the learner has made `updates` so far."""
        return self.mix_into(self._rows, updates)

    def mix_into(self, buffer: torch.Tensor, updates: int) -> Batch:
        """Like `mix`, but into `buffer [B, nbytes]`: the shares one after another, in the order of the replays."""
        rows, start, draws = buffer.numpy(), 0, []
        for replay in self.replays:
            started = time.perf_counter()
            part = rows[start : start + replay.share]
            drawn = replay.draw(part, updates)
            age = updates - float(self._layout.array(part, "weight_version").mean())
            draws.append(drawn._replace(age=age, seconds=time.perf_counter() - started))
            start += replay.share
        self._new_unrolls = 0
        return Batch(buffer, self.fresh, tuple(draws))

    def state_dict(self) -> dict[str, Any]:
        """The state of all replays, not copied: write it to the file before the next `add`."""
        return {"new": self._new_unrolls, "replays": [replay.state_dict() for replay in self.replays], "prepared": []}

    def load_state_dict(self, state: dict[str, Any], with_queues: bool = True) -> None:
        """Load a saved state. Without `with_queues`, the queues start empty and no prepared batch is loaded."""
        self._new_unrolls = state["new"]
        for replay, replay_state in zip(self.replays, state["replays"], strict=True):
            if with_queues or not replay.is_fresh:
                replay.load_state_dict(replay_state)

    def close(self) -> None:
        """Nothing runs in the background."""


class MixAhead:
    """As a BatchMix, but keeps `ahead` batches ready, one more while the learner is between updates.

    Every batch is drawn exactly `ahead` updates before its own update, however fast the threads are, so runs of one
    seed are equal. `copy_learner` copies what the ranking needs from the learner, and returns the number of updates so
    far. `upload` copies a batch to the learner's `device`. Only one thread uses the replays at a time: every method
    that reads or changes them first waits for the running draw.
    """

    def __init__(
        self,
        mix: BatchMix,
        ahead: int,
        copy_learner: Callable[[], int],
        upload: Callable[[torch.Tensor], torch.Tensor | None],
        device: torch.device = CPU,
    ) -> None:
        self._mix = mix
        self._ahead = ahead
        self._copy_learner = copy_learner
        self._upload = upload
        # The learner uses one buffer, and up to `ahead` + 1 batches are ready.
        self._buffers = deque(mix.buffer() for _ in range(ahead + 2))
        self._batches: deque[Future[Batch]] = deque()
        self._background = ThreadPoolExecutor(1, initializer=_set_up_thread, initargs=(device,))

    @property
    def replays(self) -> Sequence[Replay]:
        return self._idle_mix().replays

    @property
    def is_warming_up(self) -> bool:
        return self._idle_mix().is_warming_up

    def unrolls_accepted(self) -> int:
        return 0 if self._full() else self._idle_mix().unrolls_accepted()

    def unrolls_needed(self) -> int:
        return 0 if self._full() else self._idle_mix().unrolls_needed()

    def add(self, row: Rows) -> None:
        self._idle_mix().add(row)

    def ready(self) -> bool:
        """Whether `mix` may be called; starts as many draws as the replays allow."""
        while not self._full() and self._idle_mix().ready():
            self._batches.append(self._background.submit(self._draw, self._next_buffer(), self._copy_learner()))
        return self._full()

    def mix(self, updates: int) -> Batch:
        """The oldest batch; it was drawn `ahead` updates ago."""
        return self._batches.popleft().result()

    def state_dict(self) -> dict[str, Any]:
        state = self._idle_mix().state_dict()
        batches = [future.result() for future in self._batches if future.exception() is None]
        return {**state, "prepared": [{"rows": batch.rows, "draws": batch.draws} for batch in batches]}

    def load_state_dict(self, state: dict[str, Any], with_queues: bool = True) -> None:
        self._mix.load_state_dict(state, with_queues)
        prepared = state["prepared"] if with_queues else []
        for left, saved in zip(range(len(prepared), 0, -1), prepared, strict=True):
            # If more were saved than are kept ready, the oldest are in buffers of their own until they are used.
            buffer = self._next_buffer() if left <= self._ahead + 1 else self._mix.buffer()
            buffer.copy_(saved["rows"])
            draws = tuple(Drawn(*drawn) for drawn in saved["draws"])
            future: Future[Batch] = Future()
            future.set_result(Batch(buffer, self._mix.fresh, draws, self._upload(buffer)))
            self._batches.append(future)

    def close(self) -> None:
        """Stop the background thread."""
        self._background.shutdown()

    def _next_buffer(self) -> torch.Tensor:
        self._buffers.rotate(-1)
        return self._buffers[-1]

    def _full(self) -> bool:
        return len(self._batches) > self._ahead

    def _idle_mix(self) -> BatchMix:
        """The mix, after the draws that were started have ended. Only `mix` raises their errors: so a run that ends
        by one can save and report what it has."""
        if self._batches:
            self._batches[-1].exception()
        return self._mix

    def _draw(self, buffer: torch.Tensor, updates: int) -> Batch:
        batch = self._mix.mix_into(buffer, updates)
        return batch._replace(uploaded=self._upload(buffer))


def _set_up_thread(device: torch.device) -> None:
    """The settings of the learner's thread that torch keeps per thread."""
    torch.set_flush_denormal(True)
    if device.type == "cuda":
        torch.cuda.set_device(device)


Mix = BatchMix | MixAhead
