"""The gradients of a batch: of all unrolls at once, or added up over parts where the GPU's memory is too small."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from agents.batch_loss import BatchLoss
from agents.estimates import Estimates, estimates_of
from agents.gradients import Averaged, Gradients, Record, RecordedBatches, trained_parameters
from agents.impact import TargetNetwork
from agents.network import ActorCritic
from agents.training_batch import TrainingBatch, joined, split_batch, without_pictures
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


class _Own(NamedTuple):
    """A batch or a part of it, and the gradients of its loss without those of other learners."""

    computed: Computed
    gradients: Gradients
    output: Estimates
    estimated: Estimates


class BatchGradients:
    """Computes the gradients of each batch for one step of the optimizer.

    With `record`, a whole batch is recorded as a CUDA graph.

    A batch that the GPU has no memory for is divided into twice as many parts until each part fits, and so are all
    batches after it. Unrolls do not influence each other, and every term of the loss is a sum over states, so the
    gradients of the parts add up to those of the batch. All figures are computed once, for the whole batch.
    """

    def __init__(
        self,
        network: ActorCritic,
        target: TargetNetwork | None,
        averaged: Averaged,
        loss: BatchLoss,
        make: Callable[[Batch, Batch], TrainingBatch],
        announce: Callable[[str], None],
        record: Record[_Own] | None = None,
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
        self._recorded = None
        if record is not None:
            device = network.background.device
            self._recorded = RecordedBatches(lambda batch: self._own(batch, batch), record, device, announce)

    def compute(self, batch: Batch) -> Computed:
        """The gradients are then those of the network's parameters. Nothing else is changed."""
        before, unrolls = self.parts, len(batch.fresh)
        while (computed := self._attempt(batch)) is None:
            # The error and all tensors that it referred to are gone by now. What torch keeps of their memory, and that
            # of recordings of whole batches, goes back to the GPU, so that it can be allocated in other sizes, or by an
            # inference server.
            self._recorded = None
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
        if self._recorded is not None:
            own = self._recorded(batch)
            self._averaged.take(own.gradients)
            return own.computed
        unrolls = self._make(batch, batch)
        output, estimated = self._estimates_of_batch(unrolls, batch.is_used_again)
        report, loss, targets = self._loss(output, estimated, unrolls)
        self._averaged.backward(loss)
        return Computed(unrolls, report, targets)

    def _own(self, part: Batch, whole: Batch) -> _Own:
        unrolls = self._make(part, whole)
        output, estimated = self._estimates_of_part(unrolls)
        report, loss, targets = self._loss(output, estimated, unrolls)
        # These are not kept in the parameters, where DistributedDataParallel would send them.
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return _Own(Computed(unrolls, report, targets), gradients, _detached(output), _detached(estimated))

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
        own = self._own(part, whole)
        return _Part(own.gradients, without_pictures(own.computed.unrolls), own.output, own.estimated)

    def _estimates_of_batch(self, unrolls: TrainingBatch, is_used_again: bool) -> tuple[Estimates, Estimates]:
        """What the network says, and what the network says that V-trace corrects to."""
        if self._target is None:
            return (estimates_of(self._averaged, unrolls),) * 2
        return self._target.of_batch(unrolls, is_used_again, lambda: estimates_of(self._averaged, unrolls))

    def _estimates_of_part(self, unrolls: TrainingBatch) -> tuple[Estimates, Estimates]:
        if self._target is None:
            return (estimates_of(self._network, unrolls),) * 2
        return self._target.of_part(unrolls, lambda: estimates_of(self._network, unrolls))


def _added(total: torch.Tensor | None, gradient: torch.Tensor | None) -> torch.Tensor | None:
    if total is None or gradient is None:
        return gradient if total is None else total
    return total + gradient  # not in place: autograd may give one tensor as the gradients of several parameters


def _detached(estimates: Estimates) -> Estimates:
    return Estimates(estimates.logits.detach(), estimates.values.detach())


def _joined(parts: list[Estimates]) -> Estimates:
    logits, values = ([getattr(part, name) for part in parts] for name in Estimates._fields)
    return Estimates(torch.cat(logits, 1), torch.cat(values, 1))
