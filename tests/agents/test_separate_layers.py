"""Policy and value without common layers."""

from dataclasses import replace

import pytest
import torch

from agents.torsos.make_torso import MLP_UNITS, SeparateLayers
from tests.agents.every_layout import ACTIONS, VECTOR, learner_of, network_of, played, vectors_only


@pytest.mark.parametrize("actions", ACTIONS)
def test_what_one_head_says_depends_on_its_own_layers_alone(actions: str) -> None:
    network = network_of(replace(vectors_only, **ACTIONS[actions]), name="separate_mlp")
    torso = network.torso
    assert isinstance(torso, SeparateLayers)
    features = network.features(torch.zeros(7, 0, 0, 0, dtype=torch.uint8), torch.randn(7, VECTOR))
    assert features.shape == (7, 2 * MLP_UNITS)
    heads = (network.policy_head, torso.policy_layers), (network.value_head, torso.value_layers)
    for (head, own), (_, others) in (heads, heads[::-1]):
        network.zero_grad()
        head(features).square().sum().backward(retain_graph=True)
        assert all(weights.grad is not None and bool(weights.grad.any()) for weights in own.parameters())
        assert all(weights.grad is None or not weights.grad.any() for weights in others.parameters())


def test_an_lstm_reads_both_parts_and_both_heads_read_it() -> None:
    network = network_of(replace(vectors_only, lstm_size=3), name="separate_mlp")
    assert network.lstm is not None and network.lstm.input_size == 2 * MLP_UNITS + 5 + 1
    assert network.policy_head.in_features == network.value_head.in_features == 3


def test_an_update_changes_both_parts() -> None:
    layout = replace(vectors_only, **ACTIONS["gaussian"])
    learner = learner_of(layout, name="separate_mlp")
    before = {name: weights.clone() for name, weights in learner.network.state_dict().items()}
    learner.update(played(layout, network_of(layout, name="separate_mlp"), 6))
    changed = {name for name, weights in learner.network.state_dict().items() if not torch.equal(weights, before[name])}
    weights = {f"torso.{part}_layers.{layer}.weight" for part in ("policy", "value") for layer in (0, 2)}
    assert {*weights, "policy_head.weight", "policy_head.log_deviations", "value_head.weight"} <= changed
