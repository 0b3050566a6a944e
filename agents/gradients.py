"""Where the gradients of an update come from: the network, a CUDA graph of it, or all learners of a run together.

An update of a small batch launches hundreds of kernels on a GPU. Launching one takes longer than computing it, so the
GPU is idle most of the time. A CUDA graph is recorded once, and then launched by one call.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch

from agents.network import ActorCritic
from replay.mix import Batch

Gradients = Sequence[torch.Tensor | None]  # of the trained parameters, in their order; None for one without influence


class TrainedNetwork:
    """The parameters of a network, which get the gradients of a loss of it."""

    def __init__(self, network: ActorCritic) -> None:
        self.parameters = trained_parameters(network)

    def backward(self, loss: torch.Tensor) -> None:
        """The gradients of a loss, in place of earlier ones."""
        for parameter in self.parameters:
            parameter.grad = None
        torch.autograd.backward(loss)

    def take(self, gradients: Gradients) -> None:
        """Gradients that were computed in another way."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient


class GradientsApart(TrainedNetwork):
    """A network whose gradients stay out of its parameters.

    There they would be averaged with those of other learners, and each CUDA graph needs gradients of its own.
    """

    gradients: list[torch.Tensor | None]  # of the latest backward pass

    def backward(self, loss: torch.Tensor) -> None:
        self.gradients, taken = [], set()
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for weights, gradient in zip(self.parameters, found, strict=True):
            # As for gradients that torch puts into parameters: each in memory of its own, in the order of the weights.
            if gradient is None or (gradient.stride() == weights.stride() and gradient.data_ptr() not in taken):
                self.gradients.append(gradient)
            else:
                self.gradients.append(torch.empty_like(weights).copy_(gradient))
            taken.add(0 if gradient is None else gradient.data_ptr())


class Peers:
    """All learners of a run make each update together, each from its own part of the batch. Here, there is only one."""

    size = 1  # how many learners there are

    def averaging(self, network: ActorCritic) -> TrainedNetwork:
        """The network, with gradients that are means over all learners."""
        return TrainedNetwork(network)

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        """`rows [N, ...]` of every learner, one after another; each learner gives as many."""
        return rows


def trained_parameters(network: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that updates change. A torso of the user's own may have others."""
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


# Batches that are computed before the recording. In the first ones, cuDNN tries algorithms and allocates memory, which
# cannot be recorded.
FIRST_BATCHES = 3

Result = TypeVar("Result")


# The first part computes again, from what the inputs hold now, and overwrites the tensors of the second, the result.
Recording = tuple[Callable[[], None], Result]


def record_on_gpu(compute: Callable[[], Result]) -> Recording[Result]:
    """Record the kernels that `compute` launches on the current GPU. They are not computed yet."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # Only this thread is forbidden what cannot be recorded: others copy batches to the GPU meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = compute()
    finally:
        torch.cuda.set_stream(stream)  # torch does not go back to it after some errors
    return graph.replay, result


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
        self._recordings: dict[bytes, tuple[torch.Tensor, Recording[Result]]] = {}  # with the rows that they read
        self._has_failed = False

    def __call__(self, batch: Batch) -> Result:
        order = batch.fresh.tobytes()
        if order not in self._recordings:
            self._record_if_due(order, batch)
        if order not in self._recordings:  # an error is gone by now, and the memory of what it referred to is free
            return self._compute(batch)
        rows, (launch, result) = self._recordings[order]
        rows.copy_(batch.rows if batch.uploaded is None else batch.uploaded)
        launch()
        return result

    def _record_if_due(self, order: bytes, batch: Batch) -> None:
        self._computed[order] += 1
        if self._has_failed or self._computed[order] <= FIRST_BATCHES:
            return
        try:
            rows = batch.rows.to(self._device, copy=True)
            self._recordings[order] = rows, self._record(lambda: self._compute(Batch(rows, batch.fresh)))
        except RuntimeError as error:  # torch's errors of CUDA and of memory are such
            self._has_failed = True
            # If an error stops the recording, ending it raises a second one. The first is the reason.
            why = str(error.__context__ or error).partition("\n")[0]
            self._announce(
                f"an update cannot be recorded as a CUDA graph ({why}); its kernels are launched one by one, which "
                "takes longer"
            )
