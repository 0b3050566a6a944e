"""Batches mixed ahead of time in a background thread, while the learner makes updates."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from replay.batch_mix import Batch, BatchMix, ReplayDraw
from replay.interface import Drawn, Replay
from replay.row_layout import Rows

CPU = torch.device("cpu")


class MixAhead:
    """Keeps `ahead` batches ready, one more while the learner is between updates.

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

    def unrolls_waiting(self) -> int:
        return self._idle_mix().unrolls_waiting(len(self._batches))

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
            draws = tuple(ReplayDraw(Drawn(*drawn), age, seconds) for drawn, age, seconds in saved["draws"])
            future: Future[Batch] = Future()
            future.set_result(Batch(buffer, self._mix.fresh, draws, self._upload(buffer)))
            self._batches.append(future)

    def close(self) -> None:
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
