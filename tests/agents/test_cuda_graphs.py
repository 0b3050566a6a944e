"""Recorded updates, with a recording that a CPU can make. Those of a GPU are in tests/gpu."""

import dataclasses
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

from agents.gradients import FIRST_BATCHES, RecordedBatches, Recording
from option_flags import LossOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.every_layout import PICTURES, every_layout, learner_of, network_of, played
from tests.agents.learners import LSTM_LAYOUT, make_batch, make_learner
from tests.agents.same_updates import LOSSES, MIXED, OPTIMIZERS, assert_same_updates, out_of_memory

CPU = torch.device("cpu")


def record(compute: Callable[[], Any]) -> Recording[Any]:
    """Like a graph, `launch` overwrites the tensors of the first result."""
    result = compute()

    def launch() -> None:
        for kept, new in zip(tree_leaves(result), tree_leaves(compute()), strict=True):
            if isinstance(kept, torch.Tensor):
                kept.data.copy_(new)

    return launch, result


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.slow
def test_the_updates_are_the_same(loss: LossOptions) -> None:
    loss = dataclasses.replace(loss, entropy_loss_end_weight=0.0)
    recorded, plain = (make_learner(loss, OPTIMIZERS[0], LSTM_LAYOUT, 9, record=one) for one in (record, None))
    orders = [MIXED, MIXED[::-1]]
    assert_same_updates(recorded, plain, [make_batch(orders[seed % 2], LSTM_LAYOUT, seed) for seed in range(12)])


@every_layout
@pytest.mark.slow
def test_so_they_are_for_all_observations_and_actions(layout: UnrollLayout) -> None:
    recorded, plain = (learner_of(layout, optimizer=OPTIMIZERS[1], record=one) for one in (record, None))
    assert_same_updates(recorded, plain, [played(layout, network_of(layout, seed=1), 6, seed) for seed in range(6)])


class Placed(torch.nn.Module):
    """Autograd gives some gradients in another order in memory than the weights, and two weights the same tensor."""

    cuda_graphs = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.places = torch.nn.Parameter(torch.zeros(1, *shape))
        self.base, self.change = (torch.nn.Parameter(torch.randn(16, math.prod(shape)) / 50) for _ in range(2))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return ((pictures + self.places).flatten(1) @ (self.base + self.change).T).tanh()


def make_placed(space: Any) -> torch.nn.Module:
    return Placed(space.shape)


PLACED = f"{__name__}:{make_placed.__name__}"


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["rmsprop", "adam"])
def test_so_they_are_for_networks_whose_gradients_are_not_laid_out_as_their_weights(
    optimizer: OptimizerOptions,
) -> None:
    clipped = dataclasses.replace(optimizer, gradient_clip_by_norm_threshold=0.01)
    recorded, plain = (learner_of(PICTURES, optimizer=clipped, name=PLACED, record=one) for one in (record, None))
    assert_same_updates(recorded, plain, [played(PICTURES, network_of(PICTURES), 6, seed) for seed in range(6)])


def sums(records: list[Batch], failure: RuntimeError | None = None) -> tuple[RecordedBatches[torch.Tensor], list[str]]:
    """The sum of the rows of a batch; each recording is appended to `records`, or fails."""
    said: list[str] = []

    def record_sum(compute: Callable[[], torch.Tensor]) -> Recording[torch.Tensor]:
        if failure is not None:
            raise failure
        recording = record(compute)
        records.append(recording)  # type: ignore[arg-type]
        return recording

    return RecordedBatches(lambda batch: batch.rows.sum(), record_sum, CPU, said.append), said


def batch_of(value: int, fresh: list[bool], uploaded: int | None = None) -> Batch:
    rows = torch.full((len(fresh), 3), value)
    return Batch(rows, np.array(fresh), uploaded=None if uploaded is None else torch.full_like(rows, uploaded))


def test_each_order_of_unrolls_is_recorded_once_after_some_batches() -> None:
    records: list[Any] = []
    recorded, said = sums(records)
    for value in range(FIRST_BATCHES):
        assert recorded(batch_of(value, [True, False])) == 6 * value
    assert not records
    for value in range(5):
        assert recorded(batch_of(value, [True, False])) == 6 * value
        assert recorded(batch_of(value, [False, True])) == 6 * value
    assert len(records) == 2 and not said


def test_rows_that_are_on_the_gpu_already_are_taken_from_there() -> None:
    recorded, _ = sums([])
    for value in range(FIRST_BATCHES):
        recorded(batch_of(value, [True]))
    assert recorded(batch_of(1, [True], uploaded=7)) == 21


@pytest.mark.parametrize("failure", [RuntimeError("not permitted\nwhen a stream is capturing"), out_of_memory()])
def test_without_a_recording_batches_are_computed_and_it_is_said_once(failure: RuntimeError) -> None:
    recorded, said = sums([], failure)
    for value in range(8):
        assert recorded(batch_of(value, [True])) == 3 * value
        assert recorded(batch_of(value, [False])) == 3 * value
    assert len(said) == 1
    assert said[0].startswith(f"an update cannot be recorded as a CUDA graph ({str(failure).splitlines()[0]}); its")


def test_the_cause_is_named_and_its_memory_is_free_before_the_batch_is_computed() -> None:
    """The end of a recording that has failed is an error of its own. Tracebacks keep what was computed."""
    said: list[str] = []
    kept: list[weakref.ref[torch.Tensor]] = []

    def compute(batch: Batch) -> torch.Tensor:
        assert all(reference() is None for reference in kept)
        return batch.rows.sum()

    def fail(compute: Callable[[], torch.Tensor]) -> Recording[torch.Tensor]:
        activations = torch.zeros(3)
        kept.append(weakref.ref(activations))
        try:
            raise out_of_memory()
        finally:
            raise RuntimeError("the capture is invalid")

    recorded = RecordedBatches(compute, fail, CPU, said.append)
    for value in range(FIRST_BATCHES + 1):
        assert recorded(batch_of(value, [True])) == 3 * value
    assert len(kept) == 1 and "(CUDA out of memory. Tried to allocate 2.00 GiB.)" in said[0]
