"""The learner's updates, and the devices and types that it computes in."""

import copy
import dataclasses
import math

import pytest
import torch

from agents.acting import Actor, ActorState, flat_weights, load_flat_weights, weight_count
from agents.learner import Learner
from agents.network import ActorCritic, NetworkInput
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import ALL_TERMS, LAYOUT, LSTM_LAYOUT, inputs_of, make_batch, make_learner, reported
from tests.agents.networks import picture_network


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_repeated_updates_fit_one_batch(optimizer: str) -> None:
    learner = make_learner(LossOptions(value_loss_weight=1.0), OptimizerOptions(optimizer=optimizer, lr=1e-3))
    batch = make_batch([True] * 4)
    value_losses = [reported(learner, batch)["value_loss"] for _ in range(40)]
    assert value_losses[-1] < 0.3 * value_losses[0]
    assert learner.updates == 40


def test_the_nature_network_learns() -> None:
    layout = UnrollLayout(unroll_length=2, frame_stack=4, frame_shape=(1, 84, 84), action_sizes=(6,))
    torch.manual_seed(0)
    network = picture_network("nature", (4, 84, 84), 6)
    options = OptimizerOptions(optimizer="adam", lr=3e-4)
    learner = Learner(network, layout, LossOptions(), options, 100, torch.device("cpu"))
    batch = make_batch([True, False], layout)
    value_losses = [reported(learner, batch)["value_loss"] for _ in range(6)]
    assert value_losses[-1] < value_losses[0]


def test_the_background_is_a_mean_and_later_a_moving_average() -> None:
    learner, batches = make_learner(), [make_batch([True, False], seed=seed) for seed in range(3)]
    firsts = [inputs_of(batch).observations[0].float() for batch in batches]
    for batch in batches:
        learner.update(batch)
    torch.testing.assert_close(learner.network.background, torch.cat(firsts).mean(0))
    learner.updates, before = 5000, learner.network.background.clone()
    learner.update(batches[0])
    torch.testing.assert_close(learner.network.background, before + (firsts[0].mean(0) - before) / 1000)


@pytest.mark.parametrize(("kept", "weight"), [(0, 1.0), (3, 1 / 4), (10_000, 1 / 1000)])
def test_the_background_of_loaded_weights_moves_on_if_it_is_kept(kept: int, weight: float) -> None:
    learner, batch = make_learner(), make_batch([True, False])
    learner.network.background.fill_(40.0)
    learner.keep_background(kept)
    resumed = make_learner()
    resumed.load_state_dict(copy.deepcopy(learner.state_dict()))
    first = inputs_of(batch).observations[0].float().mean(0)
    for each in (learner, resumed):
        each.update(batch)
        torch.testing.assert_close(each.network.background, 40.0 + weight * (first - 40.0))


def test_an_update_does_not_change_the_batch() -> None:
    batch, learner = make_batch([True, False], LSTM_LAYOUT), make_learner(ALL_TERMS, layout=LSTM_LAYOUT)
    rows, before = batch.rows.clone(), flat_weights(learner.network)
    report = learner.update(batch)
    assert torch.equal(batch.rows, rows)
    assert not torch.equal(flat_weights(learner.network), before)
    assert not any(value.requires_grad or value.dim() for value in report.values())


def test_equal_seeds_and_batches_give_equal_weights() -> None:
    ends = []
    for _ in range(2):
        learner = make_learner(ALL_TERMS)
        for seed in range(3):
            learner.update(make_batch([True, False], seed=seed))
        ends.append(flat_weights(learner.network))
    assert torch.equal(*ends)


def test_a_batch_of_one_state_works() -> None:
    layout = dataclasses.replace(LAYOUT, unroll_length=1)
    learner = make_learner(layout=layout)
    assert math.isfinite(reported(learner, make_batch([True], layout))["total_loss"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["nature", "nature_small", "nature_norm", "impala_shallow", "conv3", "impala_deep"])
def test_an_actor_computes_the_same_bits_as_the_learner(name: str, dtype: torch.dtype) -> None:
    """The actor rounds its weights to bfloat16 once, autocast rounds them at every step."""
    torch.manual_seed(0)
    network = picture_network(name, (4, 36, 36), 6, compute_dtype=dtype)
    torch.nn.init.normal_(network.policy_head.weight)
    with torch.no_grad():  # biases are zeros and gains ones at the start, which bfloat16 does not round
        for weight in network.torso.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    twin = copy.deepcopy(network)
    load_flat_weights(twin, torch.zeros(weight_count(twin)))
    layout = UnrollLayout(unroll_length=1, frame_stack=4, frame_shape=(1, 36, 36), action_sizes=(6,))
    learner = Learner(network, layout, LossOptions(), OptimizerOptions(), 1, torch.device("cpu"))
    actor = Actor(twin)
    actor.load(flat_weights(learner.network))
    observations = torch.randint(0, 256, (8, 4, 36, 36), dtype=torch.uint8)
    state = ActorState.at_start(8, layout)
    decision = actor.act(observations, state, torch.rand(8))
    inputs = NetworkInput(
        observations=observations[None],
        previous_actions=state.previous_actions[None],
        previous_rewards=state.previous_rewards[None],
        starts=torch.zeros(1, 8, dtype=torch.bool),
        lstm_state=state.lstm_state,
    )
    with torch.no_grad():
        output = learner.network(inputs)
    assert torch.equal(decision.logits, output.logits[0])
    assert torch.equal(decision.values, output.values[0])
    assert decision.logits.std() > 0.01


@pytest.mark.parametrize("layout", [LAYOUT, LSTM_LAYOUT], ids=["feed-forward", "LSTM"])
def test_an_update_uses_tensors_of_its_device_only(monkeypatch: pytest.MonkeyPatch, layout: UnrollLayout) -> None:
    """The device `meta` computes nothing, but refuses CPU tensors as a GPU does."""
    elsewhere, real = torch.device("meta"), torch.autocast
    monkeypatch.setattr(torch, "autocast", lambda _, *others, **named: real("cpu", *others, **named))
    options = NetworkOptions(network="impala_shallow", use_lstm=bool(layout.lstm_size), lstm_size=6)
    network = ActorCritic(options, layout, torch.float32)
    learner = Learner(network, layout, ALL_TERMS, OptimizerOptions(), 100, elsewhere)
    for _ in range(2):
        report = learner.update(make_batch([True, True, False, False], layout))
        assert {figure.device for figure in report.values()} == {elsewhere}
    assert flat_weights(network).device == elsewhere
    with pytest.raises(RuntimeError, match="device"):
        torch.zeros(3) + torch.zeros(3, device=elsewhere)


@pytest.mark.parametrize("damage", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_detected(damage: float) -> None:
    learner = make_learner()
    assert learner.is_finite()
    with torch.no_grad():
        list(learner.network.parameters())[-1][-1] = damage
    assert not learner.is_finite()
