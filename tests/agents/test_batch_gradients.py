"""A batch that the GPU has no memory for is computed in parts, and the update is that of the whole batch."""

import dataclasses
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from agents.heads import PopArtValueHead
from agents.learner import Learner
from agents.network import make_network
from agents.training_batch import make_training_batch, split_batch
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.batch_mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.every_layout import every_layout, learner_of, network_of, played
from tests.agents.learners import ALL_TERMS, DELAYED_LAYOUT, LAYOUT, LSTM_LAYOUT, make_batch, make_learner, reported
from tests.agents.small_gpu import PLACES, SmallGpu, out_of_memory
from tests.agents.test_impact import IMPACT

MIXED = [True, True, False, False, False]  # two parts: one with fresh and replayed unrolls, one with replayed ones only
# Not the tiny ones of the defaults, with which the rounding of a gradient near 0 decides a whole step.
OPTIMIZERS = [
    OptimizerOptions(optimizer="rmsprop", lr=1e-3, rmsprop_eps=1e-2, rmsprop_momentum=0.5),
    OptimizerOptions(optimizer="adam", lr=1e-3, adam_eps=1e-2),
]
LOSSES = {
    "mean": ALL_TERMS,
    "sum": dataclasses.replace(ALL_TERMS, loss_reduction="sum"),
    "impact": dataclasses.replace(IMPACT, use_kl_mask=True, impact_target_period=2),
    "defaults": LossOptions(),
}


def assert_same_learner(divided: Learner, whole: Learner) -> None:
    """Weights, statistics, target and the state of the optimizer."""
    assert divided.updates == whole.updates
    states = [tensors_of(each.state_dict()) for each in (divided, whole)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[1].items():
        torch.testing.assert_close(states[0][name], tensor, rtol=1e-5, atol=1e-6, msg=name)


def tensors_of(state: Any, name: str = "") -> dict[str, torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return {name: state}
    parts = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else []
    return {path: tensor for key, part in parts for path, tensor in tensors_of(part, f"{name}/{key}").items()}


def assert_same_updates(divided: Learner, whole: Learner, batches: list[Batch]) -> None:
    for batch in batches:
        figures, expected = reported(divided, batch), reported(whole, batch)
        assert list(figures) == list(expected)
        assert figures == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)
    assert_same_learner(divided, whole)


@pytest.mark.parametrize("fresh", [MIXED, [True] * 5, [False] * 5], ids=["mixed", "fresh", "replayed"])
@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT, DELAYED_LAYOUT], ids=["plain", "lstm", "delayed"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["rmsprop", "adam"])
def test_the_updates_are_those_of_the_whole_batch(
    optimizer: OptimizerOptions, loss: LossOptions, layout: UnrollLayout, fresh: list[bool]
) -> None:
    divided, whole = (make_learner(loss, optimizer, layout) for _ in range(2))
    SmallGpu(divided, unrolls=3)
    assert_same_updates(divided, whole, [make_batch(fresh, layout, seed) for seed in range(3)])
    assert divided.batch_parts == 2


@every_layout
def test_so_they_are_for_all_observations_and_actions(layout: UnrollLayout) -> None:
    divided, whole = (learner_of(layout, optimizer=OPTIMIZERS[1]) for _ in range(2))
    SmallGpu(divided, unrolls=2)
    assert_same_updates(divided, whole, [played(layout, network_of(layout, seed=1), 6, seed) for seed in range(2)])
    assert divided.batch_parts == 4


def test_so_they_are_with_popart() -> None:
    """The unit of the values follows the targets of the whole batch, after the step."""
    divided, whole = (popart_learner() for _ in range(2))
    SmallGpu(divided, unrolls=3)
    assert_same_updates(divided, whole, [make_batch(MIXED, LSTM_LAYOUT, seed) for seed in range(3)])
    assert isinstance(whole.network.value_head, PopArtValueHead)
    assert float(whole.network.value_head.unit) != 1


def popart_learner() -> Learner:
    torch.manual_seed(0)
    network = make_network(NetworkOptions(network="impala_shallow", popart=True), LSTM_LAYOUT, torch.float32)
    return Learner(network, LSTM_LAYOUT, ALL_TERMS, OPTIMIZERS[1], 100, torch.device("cpu"))


@pytest.mark.parametrize("place", PLACES)
def test_memory_that_is_used_up_later_changes_nothing_else(place: str) -> None:
    """Wherever it happens within the third update, and with gradients of the second one still there."""
    divided, whole = (make_learner(ALL_TERMS, OPTIMIZERS[0], LSTM_LAYOUT) for _ in range(2))
    gpu = SmallGpu(divided, unrolls=5, place=place)
    assert_same_updates(divided, whole, [make_batch(MIXED, LSTM_LAYOUT, seed) for seed in range(2)])
    assert divided.batch_parts == 1
    gpu.unrolls = 4
    assert_same_updates(divided, whole, [make_batch(MIXED, LSTM_LAYOUT, seed) for seed in range(2, 4)])
    assert gpu.seen == [5, 5, 5, 3, 2, 3, 2], "from then on, whole batches are not tried any more"


def test_parts_are_halved_until_they_fit_and_it_is_said_once() -> None:
    said: list[str] = []
    divided, whole = (make_learner(ALL_TERMS, OPTIMIZERS[1], announce=announce) for announce in (said.append, print))
    gpu = SmallGpu(divided, unrolls=1)
    assert_same_updates(divided, whole, [make_batch(MIXED, seed=seed) for seed in range(3)])
    assert gpu.seen == [5, 3, 2, *[1] * 15]
    assert divided.batch_parts == 5
    assert said == [
        "the GPU's memory is too small for 5 unrolls at once: from now on, updates compute a batch of 5 in 5 parts and "
        "make the same step"
    ]


def test_each_occasion_is_said() -> None:
    said: list[str] = []
    learner = make_learner(announce=said.append)
    gpu = SmallGpu(learner, unrolls=3)
    for gpu.unrolls in (5, 5, 3, 3, 2, 2):
        learner.update(make_batch(MIXED))
    assert ["in 2 parts" in text or "in 4 parts" in text for text in said] == [True, True]
    assert "too small for 3 unrolls at once" in said[1]


def test_a_single_unroll_that_does_not_fit_is_an_error_and_leaves_the_learner_as_it_was() -> None:
    learner, same = (make_learner(ALL_TERMS, OPTIMIZERS[0]) for _ in range(2))
    for each in (learner, same):
        each.update(make_batch(MIXED))
    SmallGpu(learner, unrolls=0, place="convolutions")
    with pytest.raises(torch.OutOfMemoryError):
        learner.update(make_batch(MIXED, seed=1))
    assert learner.is_intact
    assert_same_learner(learner, same)


@contextmanager
def failing_step() -> Iterator[None]:
    def fail(*_: Any) -> None:
        raise out_of_memory()

    handle = register_optimizer_step_pre_hook(fail)
    try:
        yield
    finally:
        handle.remove()


def test_memory_that_is_used_up_in_the_step_is_an_error_after_which_nothing_may_be_saved() -> None:
    learner = make_learner()
    learner.update(make_batch(MIXED))
    assert learner.is_intact
    with failing_step(), pytest.raises(torch.OutOfMemoryError):
        learner.update(make_batch(MIXED))
    assert not learner.is_intact
    assert (learner.updates, learner.batch_parts) == (1, 1), "parts would not need less memory for the step"


@pytest.mark.parametrize("uploaded", [False, True])
def test_a_batch_may_be_too_large_to_be_copied(monkeypatch: pytest.MonkeyPatch, uploaded: bool) -> None:
    """The rows of a batch that is on the GPU already are not copied again: those on the CPU may be others by now."""
    copied = []

    def make_if_it_fits(part: Batch, *others: Any) -> Any:
        copied.append(len(part.fresh))
        if len(part.fresh) > 3:
            raise out_of_memory()
        return make_training_batch(part, *others)

    batch = make_batch(MIXED, LSTM_LAYOUT)
    given = Batch(torch.zeros_like(batch.rows), batch.fresh, (), batch.rows) if uploaded else batch
    divided, whole = (make_learner(ALL_TERMS, OPTIMIZERS[1], LSTM_LAYOUT) for _ in range(2))
    expected = reported(whole, batch)
    monkeypatch.setattr("agents.learner.make_training_batch", make_if_it_fits)
    assert reported(divided, given) == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)
    assert copied == [5, 3, 2]
    assert_same_learner(divided, whole)


@pytest.mark.parametrize(("failing", "cores"), [("network", 1), ("target", 1), ("target", 64)])
def test_what_the_failed_attempt_had_allocated_is_free_before_the_next(
    failing: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.impact.usable_cores", lambda: cores)
    learner = make_learner(IMPACT if failing == "target" else None, layout=LSTM_LAYOUT)
    alive: list[weakref.ref[torch.Tensor]] = []
    at_once = []

    def remember(network: Any, inputs: Any, output: Any) -> None:
        at_once.append(sum(each() is not None for each in alive))
        alive.append(weakref.ref(inputs[0].observations))
        alive.append(weakref.ref(output.features))

    def fail_with_many(network: Any, inputs: Any, output: Any) -> None:
        if output.values.shape[1] > 1:
            raise out_of_memory()

    if failing == "network":
        learner.network.register_forward_hook(remember)
        SmallGpu(learner, unrolls=1, place="heads")
    else:
        assert learner._target is not None
        learner._target.network.register_forward_hook(remember)
        learner._target.network.register_forward_hook(fail_with_many)
    gc.disable()
    try:
        learner.update(make_batch(MIXED, LSTM_LAYOUT))
    finally:
        gc.enable()
        learner.close()
    assert at_once == [0] * 8


def test_in_bfloat16_the_updates_agree_within_its_rounding() -> None:
    divided, whole = (make_learner(ALL_TERMS, OPTIMIZERS[1]) for _ in range(2))
    for learner in (divided, whole):
        learner.network.compute_dtype = torch.bfloat16
    SmallGpu(divided, unrolls=3)
    figures, expected = (reported(learner, make_batch(MIXED)) for learner in (divided, whole))
    assert figures == pytest.approx(expected, rel=2e-2, abs=1e-3)


@pytest.mark.parametrize(("parts", "sizes"), [(1, [5]), (2, [3, 2]), (4, [2, 1, 1, 1]), (5, [1] * 5)])
def test_a_batch_is_divided_evenly_and_in_order(parts: int, sizes: list[int]) -> None:
    batch = make_batch(MIXED)
    divided = split_batch(batch, parts)
    assert [len(part.fresh) for part in divided] == [len(part.rows) for part in divided] == sizes
    assert torch.equal(torch.cat([part.rows for part in divided]), batch.rows)
    assert np.concatenate([part.fresh for part in divided]).tolist() == MIXED
