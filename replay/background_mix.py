"""Batches mixed ahead in the background, while the learner is busy with an earlier one."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from replay.mix import Batch, BatchMix, ReplayDraw
from replay.protocol import Drawn, Replay
from replay.unroll_layout import Rows

CPU = torch.device("cpu")


class BackgroundMix:
    """A mix of which `ahead` batches are always drawn before they are needed.

    So every draw lags by that number of updates, whatever the time that anything takes. `look` copies what the ranking
    of candidates needs of the learner, and returns the updates made so far; `upload` takes a batch to the learner's
    `device`. Only one thread touches the replays at a time: whoever wants to waits for the preparation under way.
    """

    def __init__(
        self,
        mix: BatchMix,
        ahead: int,
        look: Callable[[], int],
        upload: Callable[[torch.Tensor], torch.Tensor | None],
        device: torch.device = CPU,
    ) -> None:
        self._mix = mix
        self._ahead = ahead
        self._look = look
        self._upload = upload
        # One is learned from, and one more than `ahead` may stand ready.
        self._buffers = deque(mix.buffer() for _ in range(ahead + 2))
        self._prepared: deque[Future[Batch]] = deque()
        self._background = ThreadPoolExecutor(1, initializer=_settle_thread, initargs=(device,))

    @property
    def replays(self) -> Sequence[Replay]:
        return self._settled().replays

    @property
    def is_warming_up(self) -> bool:
        return self._settled().is_warming_up

    def unrolls_accepted(self) -> int:
        return 0 if self._full() else self._settled().unrolls_accepted()

    def unrolls_needed(self) -> int:
        return 0 if self._full() else self._settled().unrolls_needed()

    def add(self, row: Rows) -> None:
        self._settled().add(row)

    def ready(self) -> bool:
        """Whether a batch may be learned from; begins to prepare all that the replays can give."""
        while not self._full() and self._settled().ready():
            self._prepared.append(self._background.submit(self._prepare, self._next_buffer(), self._look()))
        return self._full()

    def mix(self, updates: int) -> Batch:
        """The batch that was begun first; it was drawn `ahead` updates ago."""
        return self._prepared.popleft().result()

    def state_dict(self) -> dict[str, Any]:
        state = self._settled().state_dict()
        batches = [future.result() for future in self._prepared]
        return {**state, "prepared": [{"rows": batch.rows, "draws": batch.draws} for batch in batches]}

    def load_state_dict(self, state: dict[str, Any], queues_too: bool = True) -> None:
        self._mix.load_state_dict(state, queues_too)
        for saved in state["prepared"][: self._ahead + 1] if queues_too else []:
            buffer = self._next_buffer()
            buffer.copy_(saved["rows"])
            draws = tuple(ReplayDraw(Drawn(*drawn), age, seconds) for drawn, age, seconds in saved["draws"])
            future: Future[Batch] = Future()
            future.set_result(Batch(buffer, self._mix.fresh, draws, self._upload(buffer)))
            self._prepared.append(future)

    def close(self) -> None:
        self._background.shutdown()

    def _next_buffer(self) -> torch.Tensor:
        self._buffers.rotate(-1)
        return self._buffers[-1]

    def _full(self) -> bool:
        return len(self._prepared) > self._ahead

    def _settled(self) -> BatchMix:
        """The mix, when nothing goes on in it any more."""
        if self._prepared:
            self._prepared[-1].result()
        return self._mix

    def _prepare(self, buffer: torch.Tensor, updates: int) -> Batch:
        batch = self._mix.mix_into(buffer, updates)
        return batch._replace(uploaded=self._upload(buffer))


def _settle_thread(device: torch.device) -> None:
    """Settings that torch keeps for each thread, as the learner's own has them."""
    torch.set_flush_denormal(True)
    if device.type == "cuda":
        torch.cuda.set_device(device)
