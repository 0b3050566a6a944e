"""The gradients of a batch: of all unrolls at once, or added up over parts where the GPU's memory is too small."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

import torch

from agents.batch_loss import BatchLoss, Estimates
from agents.network import ActorCritic
from agents.other_learners import Averaged, Gradients, trained_parameters
from agents.training_batch import TrainingBatch, joined, split_batch, without_pictures
from machine.device import usable_cores
from replay.batch_mix import Batch


class Computed(NamedTuple):
    """A batch whose gradients have been computed."""

    unrolls: TrainingBatch  # of a batch in parts, without the pictures after the first state
    report: dict[str, torch.Tensor]
    targets: torch.Tensor  # [T, B], of the values


class _Part(NamedTuple):
    """What remains of a part: little memory, and enough to report as for the whole batch."""

    gradients: Gradients
    unrolls: TrainingBatch
    output: Estimates
    estimated: Estimates


class BatchGradients:
    """Computes the gradients of each batch for one step of the optimizer.

    A batch that the GPU has no memory for is divided into twice as many parts until each part fits, and so are all
    batches after it. Unrolls do not influence each other, and every term of the loss is a sum over states, so the
    gradients of the parts add up to those of the batch. All figures are computed once, for the whole batch.
    """

    def __init__(
        self,
        network: ActorCritic,
        target: ActorCritic | None,
        averaged: Averaged,
        loss: BatchLoss,
        make: Callable[[Batch, Batch], TrainingBatch],
        announce: Callable[[str], None],
    ) -> None:
        """`make(part, whole)` gives the tensors of a part of a batch; `averaged` is `network` with its peers."""
        self.parts = 1
        self._network = network
        self._target = target
        self._averaged = averaged
        self._loss = loss
        self._make = make
        self._announce = announce
        self._parameters = trained_parameters(network)
        # On a CPU, the target network computes at the same time as the network, on cores that are not the learner's.
        # For vectors alone, two threads are slower than one: an update takes only some milliseconds.
        self._target_thread: ThreadPoolExecutor | None = None
        sees_pictures = network.background.numel() > 0
        has_cores = network.background.device.type == "cpu" and 2 * torch.get_num_threads() <= usable_cores()
        if target is not None and sees_pictures and has_cores:
            self._target_thread = ThreadPoolExecutor(1, "target-network", _set_up_thread)

    def close(self) -> None:
        """End the thread, if there is one."""
        if self._target_thread is not None:
            self._target_thread.shutdown()

    def compute(self, batch: Batch) -> Computed:
        """The gradients are then those of the network's parameters. Nothing else is changed."""
        before, unrolls = self.parts, len(batch.fresh)
        while (computed := self._attempt(batch)) is None:
            # The error and all tensors that it referred to are gone by now. What torch keeps of their memory goes back
            # to the GPU, so that it can be allocated in other sizes, or by an inference server.
            torch.cuda.empty_cache()
            self.parts = min(2 * self.parts, unrolls)
        if self.parts > before:
            self._announce(
                f"the GPU's memory is too small for {-(-unrolls // before)} unrolls at once: from now on, updates "
                f"compute a batch of {unrolls} in {self.parts} parts and make the same step"
            )
        return computed

    def _attempt(self, batch: Batch) -> Computed | None:
        """None if the GPU's memory is too small, and the batch can be divided further."""
        try:
            return self._at_once(batch) if self.parts == 1 else self._in_parts(batch)
        except torch.OutOfMemoryError:
            if self.parts >= len(batch.fresh):
                raise
            return None

    def _at_once(self, batch: Batch) -> Computed:
        unrolls = self._make(batch, batch)
        report, loss, targets = self._loss(*self._estimates(self._averaged, unrolls), unrolls)
        self._averaged.backward(loss)
        return Computed(unrolls, report, targets)

    def _in_parts(self, batch: Batch) -> Computed:
        sums: Gradients = [None] * len(self._parameters)
        parts = []
        for each in split_batch(batch, self.parts):
            part = self._part(each, batch)
            sums = [_added(total, gradient) for total, gradient in zip(sums, part.gradients, strict=True)]
            parts.append(part._replace(gradients=()))
        unrolls = joined([part.unrolls for part in parts])
        output, estimated = _joined([part.output for part in parts]), _joined([part.estimated for part in parts])
        with torch.no_grad():
            report, _, targets = self._loss(output, estimated, unrolls)
        self._averaged.take(sums)
        return Computed(unrolls, report, targets)

    def _part(self, part: Batch, whole: Batch) -> _Part:
        unrolls = self._make(part, whole)
        output, estimated = self._estimates(self._network, unrolls)
        _, loss, _ = self._loss(output, estimated, unrolls)
        # These are not kept in the parameters, where DistributedDataParallel would send them.
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return _Part(gradients, without_pictures(unrolls), _detached(output), _detached(estimated))

    def _estimates(self, network: Averaged | ActorCritic, unrolls: TrainingBatch) -> tuple[Estimates, Estimates]:
        """What the network says, and what the network says that V-trace corrects to."""
        if self._target is None:
            estimates = _estimates_of(network, unrolls)
            return estimates, estimates
        if self._target_thread is None:
            estimated = _estimates_without_gradient(self._target, unrolls)
            return _estimates_of(network, unrolls), estimated
        later = self._target_thread.submit(_estimates_without_gradient, self._target, unrolls)
        try:
            return _estimates_of(network, unrolls), later.result()
        finally:  # after an error, nothing goes on, and nothing refers to the tensors of the batch
            wait([later])
            del later


def _set_up_thread() -> None:
    """The settings that torch keeps for each thread."""
    torch.set_flush_denormal(True)
    torch.get_num_threads()  # takes over the number of the process; until then, a thread computes with all cores
    torch.autocast_increment_nesting()  # otherwise each end of autocast here empties the cache of the other thread


def _estimates_of(network: Averaged | ActorCritic, unrolls: TrainingBatch) -> Estimates:
    output = network(unrolls.inputs, last_is_bootstrap=True)
    return Estimates(output.logits, output.values)


def _estimates_without_gradient(network: ActorCritic, unrolls: TrainingBatch) -> Estimates:
    with torch.no_grad():
        return _estimates_of(network, unrolls)


def _added(total: torch.Tensor | None, gradient: torch.Tensor | None) -> torch.Tensor | None:
    if total is None or gradient is None:
        return gradient if total is None else total
    return total.add_(gradient)


def _detached(estimates: Estimates) -> Estimates:
    return Estimates(estimates.logits.detach(), estimates.values.detach())


def _joined(parts: list[Estimates]) -> Estimates:
    logits, values = ([getattr(part, name) for part in parts] for name in Estimates._fields)
    return Estimates(torch.cat(logits, 1), torch.cat(values, 1))
