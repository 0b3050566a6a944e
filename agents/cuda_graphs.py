"""A computation on a GPU that is recorded once as a CUDA graph, and launched as a whole from then on.

An update of a small batch launches hundreds of kernels. Launching one takes longer than computing it, so the GPU is
idle most of the time. A graph is launched by one call.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from replay.batch_mix import Batch

# Batches that are computed before the recording. In the first ones, cuDNN tries algorithms and allocates memory, which
# cannot be recorded.
FIRST_BATCHES = 3

Result = TypeVar("Result")


@dataclass(frozen=True)
class Recording(Generic[Result]):
    """`launch` computes again, from what the inputs hold now, and overwrites the tensors of `result`."""

    launch: Callable[[], None]
    result: Result


def record_on_gpu(compute: Callable[[], Result]) -> Recording[Result]:
    """Record the kernels that `compute` launches on the current GPU. They are not computed yet."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # Only this thread is forbidden what cannot be recorded: others copy batches to the GPU meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = compute()
    finally:
        torch.cuda.set_stream(stream)  # torch does not go back to it after some errors
    return Recording(graph.replay, result)


Record = Callable[[Callable[[], Result]], Recording[Result]]


class RecordedBatches(Generic[Result]):
    """A function of a batch, recorded for each order of fresh and replayed unrolls.

    The function may depend on nothing but the batch and tensors that keep their place in memory, such as weights: what
    Python computes is not computed again. Its results are valid until the next call.
    """

    def __init__(
        self,
        compute: Callable[[Batch], Result],
        record: Record[Result],
        device: torch.device,
        announce: Callable[[str], None],
    ) -> None:
        self._compute = compute
        self._record = record
        self._device = device
        self._announce = announce
        self._computed: Counter[bytes] = Counter()  # batches until the recording
        self._recordings: dict[bytes, tuple[torch.Tensor, Recording[Result]]] = {}
        self._has_failed = False

    def __call__(self, batch: Batch) -> Result:
        order = batch.fresh.tobytes()
        if order not in self._recordings:
            self._record_if_due(order, batch)
        if order not in self._recordings:  # an error is gone by now, and the memory of what it referred to is free
            return self._compute(batch)
        rows, recording = self._recordings[order]
        rows.copy_(batch.rows if batch.uploaded is None else batch.uploaded)
        recording.launch()
        return recording.result

    def _record_if_due(self, order: bytes, batch: Batch) -> None:
        self._computed[order] += 1
        if self._has_failed or self._computed[order] <= FIRST_BATCHES:
            return
        try:
            self._recordings[order] = self._recorded(batch)
        except RuntimeError as error:  # torch's errors of CUDA and of memory are such
            # If an error stops the recording, ending it raises a second one. The first is the reason.
            self._give_up(str(error.__context__ or error).partition("\n")[0])

    def _recorded(self, batch: Batch) -> tuple[torch.Tensor, Recording[Result]]:
        """The rows that the recording reads, and the recording."""
        rows = batch.rows.to(self._device, copy=True)
        return rows, self._record(lambda: self._compute(Batch(rows, batch.fresh)))

    def _give_up(self, why: str) -> None:
        self._has_failed = True
        self._announce(
            f"an update cannot be recorded as a CUDA graph ({why}); its kernels are launched one by one, which takes "
            "longer"
        )
