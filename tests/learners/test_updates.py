"""Two learners with half a batch each make the updates of one learner with the whole batch."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from agents.gradients import FIRST_BATCHES, Peers
from agents.learner import Learner
from agents.network import ActorCritic
from learners.group import LearnerGroup
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import ALL_TERMS, LAYOUT, LSTM_LAYOUT, make_batch
from tests.agents.test_cuda_graphs import record
from tests.agents.test_impact import IMPACT
from tests.learners.groups import run_group

pytestmark = pytest.mark.slow

FRESH = [True, True, False, False]  # so each of two learners has a fresh and a replayed one
OF_THE_WHOLE_BATCH = ("policy_loss", "value_loss", "entropy_loss", "proximal_loss", "policy_cloning_loss", "total_loss")
RMSPROP = OptimizerOptions(lr=1e-3, rmsprop_eps=1e-3, lr_warmup_updates=0)
ADAM = OptimizerOptions(optimizer="adam", lr=1e-3, adam_eps=1e-3, lr_warmup_updates=0)
SUM = dataclasses.replace(ALL_TERMS, loss_reduction="sum")


class Case(NamedTuple):
    layout: UnrollLayout = LAYOUT
    loss: LossOptions = ALL_TERMS
    optimizer: OptimizerOptions = RMSPROP
    network: str = "impala_shallow"
    popart: bool = False
    recording: tuple[int, ...] = ()  # learners that record their updates


class Updates(NamedTuple):
    figures: list[dict[str, float]]
    state: dict[str, Any]  # of the network: weights, background and the unit of PopArt
    checksum: int


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


def make_recordable_torso(space: Any) -> torch.nn.Module:
    torso = Torso()
    torso.cuda_graphs = True  # type: ignore[assignment]
    return torso


def updates(case: Case, peers: Peers | None = None, rank: int = 0, size: int = 1) -> Updates:
    """Some updates with each `size`-th unroll of the batches."""
    torch.manual_seed(0)
    network = ActorCritic(NetworkOptions(network=case.network, popart=case.popart), case.layout, torch.float32)
    torch.nn.init.normal_(network.policy_head.weight, std=0.2)  # a policy that depends on the state
    learner = Learner(network, case.layout, case.loss, case.optimizer, 100, torch.device("cpu"))
    if peers is not None:
        learner.join(peers)
    if rank in case.recording:
        learner.record(record, print)
    figures = []
    for seed in range(FIRST_BATCHES + 3):
        whole = make_batch(FRESH, case.layout, seed)
        own = Batch(whole.rows[rank::size].clone(), whole.fresh[rank::size])
        figures.append({name: float(value) for name, value in learner.update(own).items()})
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    return Updates(figures, state, learner.weights_checksum())


def updates_of_one(group: LearnerGroup, case: Case) -> Updates:
    return updates(case, group, group.rank.index, group.size)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(), id="feedforward"),
        pytest.param(Case(LSTM_LAYOUT, SUM), id="lstm, sum"),
        pytest.param(Case(LSTM_LAYOUT, optimizer=ADAM), id="lstm, adam"),
        pytest.param(Case(loss=SUM, optimizer=ADAM), id="sum, adam"),
        pytest.param(Case(loss=IMPACT, popart=True), id="impact and popart"),
        pytest.param(Case(optimizer=ADAM, popart=True), id="popart, adam"),
        pytest.param(Case(network=f"{__name__}:make_torso"), id="unused weights"),
        pytest.param(Case(LSTM_LAYOUT, recording=(0, 1)), id="both record their updates"),
        pytest.param(Case(LSTM_LAYOUT, recording=(1,)), id="one records its updates, and sends the same gradients"),
    ],
)
def test_two_learners_make_the_updates_of_one(case: Case) -> None:
    expected = updates(case._replace(recording=()))
    halves: list[Updates] = run_group(updates_of_one, case)
    assert halves[0].checksum == halves[1].checksum, "the weights are equal bit for bit"
    for name, values in expected.state.items():
        for half in halves:
            np.testing.assert_allclose(half.state[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    for update, whole in enumerate(expected.figures):
        parts = [half.figures[update] for half in halves]
        for name in OF_THE_WHOLE_BATCH:
            assert np.mean([part[name] for part in parts]) == pytest.approx(whole[name], rel=1e-5, abs=1e-6), name
        for part in parts:
            assert part["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-5)
