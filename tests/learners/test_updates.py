"""Two learners with half a batch each make the updates of one learner with the whole batch."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from agents.acting import flat_weights
from agents.gradients import FIRST_BATCHES, Peers, Record
from agents.heads import PopArtValueHead
from agents.learner import Learner
from agents.network import make_network
from learners import group as learner_group
from learners.group import LearnerGroup
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.batch_mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import ALL_TERMS, LAYOUT, LSTM_LAYOUT, make_batch, make_learner
from tests.agents.test_cuda_graphs import record
from tests.agents.test_impact import IMPACT
from tests.learners.groups import run_group

pytestmark = pytest.mark.slow

FRESH = [True, True, False, False]  # so each of two learners has a fresh and a replayed one
UPDATES = 3
OF_THE_WHOLE_BATCH = ("policy_loss", "value_loss", "entropy_loss", "proximal_loss", "policy_cloning_loss", "total_loss")


def make(
    layout: UnrollLayout,
    loss: LossOptions,
    optimizer: OptimizerOptions,
    peers: Peers | None,
    record: Record[Any] | None = None,
) -> Learner:
    learner = make_learner(loss, optimizer, layout)
    if peers is not None:
        learner.join(peers)
    if record is not None:
        learner.record(record, print)
    return learner


def updates(
    peers: Peers | None,
    rank: int,
    size: int,
    layout: UnrollLayout,
    loss: LossOptions,
    optimizer: OptimizerOptions,
    count: int = UPDATES,
    record: Record[Any] | None = None,
) -> tuple[list[dict[str, float]], Any, int]:
    """The figures of some updates with each `size`-th unroll of the batches, and the weights after them."""
    learner = make(layout, loss, optimizer, peers, record)
    figures = []
    for seed in range(count):
        whole = make_batch(FRESH, layout, seed)
        own = Batch(whole.rows[rank::size].clone(), whole.fresh[rank::size])
        figures.append({name: float(value) for name, value in learner.update(own).items()})
    return figures, flat_weights(learner.network).numpy(), learner.weights_checksum()


def updates_of_one(group: LearnerGroup, *arguments: Any) -> tuple[list[dict[str, float]], Any, int]:
    return updates(group, group.rank.index, group.size, *arguments)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT], ids=["feedforward", "lstm"])
@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_two_learners_make_the_updates_of_one(reduction: str, layout: UnrollLayout, optimizer: str) -> None:
    loss = dataclasses.replace(ALL_TERMS, loss_reduction=reduction)
    options = OptimizerOptions(optimizer=optimizer, lr=1e-3, rmsprop_eps=1e-3, adam_eps=1e-3)
    expected, weights, _ = updates(None, 0, 1, layout, loss, options)
    halves = run_group(updates_of_one, layout, loss, options)
    assert halves[0][2] == halves[1][2], "the weights are equal bit for bit"
    np.testing.assert_allclose(halves[0][1], weights, rtol=0, atol=1e-6)
    for update, whole in enumerate(expected):
        parts = [figures[update] for figures, _, _ in halves]
        for name in OF_THE_WHOLE_BATCH:
            assert np.mean([part[name] for part in parts]) == pytest.approx(whole[name], rel=1e-5, abs=1e-6), name
        for part in parts:
            assert part["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-5)


@pytest.mark.parametrize("recording_learners", [(0, 1), (1,)], ids=["both", "one"])
def test_so_do_two_learners_of_which_both_or_one_record_their_updates(recording_learners: tuple[int, ...]) -> None:
    """A learner that cannot record its updates sends the same gradients."""
    options = OptimizerOptions(lr=1e-3, rmsprop_eps=1e-3)
    count = FIRST_BATCHES + 3
    expected, weights, _ = updates(None, 0, 1, LSTM_LAYOUT, ALL_TERMS, options, count)
    halves = run_group(recorded_updates_of_one, recording_learners, LSTM_LAYOUT, ALL_TERMS, options, count)
    assert halves[0][2] == halves[1][2], "the weights are equal bit for bit"
    np.testing.assert_allclose(halves[0][1], weights, rtol=0, atol=1e-6)
    for update, whole in enumerate(expected):
        for figures, _, _ in halves:
            assert figures[update]["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-5)


def recorded_updates_of_one(
    group: LearnerGroup,
    recording_learners: tuple[int, ...],
    layout: UnrollLayout,
    loss: LossOptions,
    optimizer: OptimizerOptions,
    count: int,
) -> tuple[list[dict[str, float]], Any, int]:
    recording = record if group.rank.index in recording_learners else None
    return updates(group, group.rank.index, group.size, layout, loss, optimizer, count, recording)


def test_the_unit_of_popart_is_that_of_the_whole_batch() -> None:
    (_, unit), expected = popart_of_one(None, 0, 1)
    for weights, found in run_group(popart_of_a_learner):
        assert found == pytest.approx(unit, rel=1e-5)
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-6)


def popart_of_a_learner(group: LearnerGroup) -> Any:
    (_, unit), weights = popart_of_one(group, group.rank.index, group.size)
    return weights, unit


def popart_of_one(peers: Peers | None, rank: int, size: int) -> Any:
    torch.manual_seed(0)
    options = OptimizerOptions(optimizer="adam", lr=1e-3, adam_eps=1e-3)
    network = make_network(NetworkOptions(network="impala_shallow", popart=True), LAYOUT, torch.float32)
    learner = Learner(network, LAYOUT, ALL_TERMS, options, 100, torch.device("cpu"))
    if peers is not None:
        learner.join(peers)
    for seed in range(UPDATES):
        whole = make_batch(FRESH, LAYOUT, seed)
        learner.update(Batch(whole.rows[rank::size].clone(), whole.fresh[rank::size]))
    head = learner.network.value_head
    assert isinstance(head, PopArtValueHead)
    return (float(head.centre), float(head.unit)), flat_weights(network).numpy()


class Torso(torch.nn.Module):
    """A user's own torso, with weights that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(2, 3, 5, stride=4)
        self.unused = torch.nn.Linear(7, 7)
        self.last = torch.nn.Linear(48, 16)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.last(self.convolution(pictures).flatten(1).relu()).relu()  # type: ignore[no-any-return]


def make_torso(space: Any) -> torch.nn.Module:
    return Torso()


def other_updates(
    peers: Peers | None, rank: int, size: int, network: str, loss: LossOptions
) -> tuple[list[dict[str, float]], Any, int]:
    torch.manual_seed(0)
    options = OptimizerOptions(lr=1e-3, rmsprop_eps=1e-3, lr_warmup_updates=0)
    popart = loss.loss == "impact"
    made = make_network(NetworkOptions(network=network, popart=popart), LAYOUT, torch.float32)
    learner = Learner(made, LAYOUT, loss, options, 100, torch.device("cpu"))
    if peers is not None:
        learner.join(peers)
    figures = []
    for update in range(4):
        whole = make_batch(FRESH, LAYOUT, update)
        own = Batch(whole.rows[rank::size].clone(), whole.fresh[rank::size])
        figures.append({name: float(value) for name, value in learner.update(own).items()})
    return figures, flat_weights(learner.network).numpy(), learner.weights_checksum()


def other_updates_of_one(group: LearnerGroup, *arguments: Any) -> tuple[list[dict[str, float]], Any, int]:
    learner_group.BUCKET_MEGABYTES = 0.001  # so that even a small network's gradients are sent in several groups
    return other_updates(group, group.rank.index, group.size, *arguments)


@pytest.mark.parametrize(
    ("network", "loss"),
    [
        pytest.param("impala_shallow", IMPACT, id="impact_and_popart"),
        pytest.param(f"{__name__}:make_torso", ALL_TERMS, id="unused_weights"),
    ],
)
def test_so_do_two_learners_with_another_loss_or_network(network: str, loss: LossOptions) -> None:
    expected, weights, _ = other_updates(None, 0, 1, network, loss)
    halves = run_group(other_updates_of_one, network, loss)
    assert halves[0][2] == halves[1][2], "the weights are equal bit for bit"
    np.testing.assert_allclose(halves[0][1], weights, rtol=0, atol=1e-6)
    for update, whole in enumerate(expected):
        for figures, *_ in halves:
            assert figures[update]["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-5)
        for name in OF_THE_WHOLE_BATCH:
            found = np.mean([figures[update][name] for figures, *_ in halves])
            assert found == pytest.approx(whole[name], rel=1e-5, abs=1e-6), name


def test_the_background_is_that_of_the_whole_batch() -> None:
    backgrounds = run_group(backgrounds_of_one)
    batches = [make_batch(FRESH, LAYOUT, seed) for seed in range(UPDATES)]
    first_frames = [LAYOUT.arrays(batch.rows.numpy())["frames"][:, : LAYOUT.frame_stack] for batch in batches]
    mean = torch.from_numpy(np.concatenate(first_frames)).float().mean(0).flatten(0, 1)
    for background in backgrounds:
        torch.testing.assert_close(torch.from_numpy(background), mean)


def backgrounds_of_one(group: LearnerGroup) -> Any:
    learner = make(LAYOUT, LossOptions(), OptimizerOptions(), group)
    for seed in range(UPDATES):
        whole = make_batch(FRESH, LAYOUT, seed)
        learner.update(Batch(whole.rows[group.rank.index :: 2].clone(), whole.fresh[group.rank.index :: 2]))
    return learner.network.background.numpy()
