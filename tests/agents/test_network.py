"""Policies and values of the networks, the background, and number types."""

import numpy as np
import pytest
import torch
from torch import nn

from agents.network import ActorCritic
from option_flags import NetworkOptions
from replay.unroll_layout import UnrollLayout
from tests.agents.networks import ACTIONS, FEATURES, picture_network, random_input, small_network


@pytest.mark.parametrize("lstm_size", [0, 5])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.bfloat16, 2e-2)])
def test_a_bootstrap_step_changes_no_gradient(lstm_size: int, dtype: torch.dtype, close: float) -> None:
    network, inputs = small_network(lstm_size, dtype), random_input(4, 3, (2, 20, 20), lstm_size, starts=(2,))
    found = []
    for last_is_bootstrap in (False, True):
        network.zero_grad()
        output = network(inputs, last_is_bootstrap)
        torch.autograd.backward(output.logits[:-1].square().sum() + output.values[:-1].square().sum())
        found.append([*(part.detach() for part in output), *(parameter.grad for parameter in network.parameters())])
        assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    for whole, saved in zip(*found, strict=True):
        torch.testing.assert_close(
            saved, whole, rtol=close, atol=close * float(whole.abs().max()) if whole.numel() else 0
        )
    features = network(inputs, last_is_bootstrap=True).features
    (reached,) = torch.autograd.grad(features[-1].sum(), next(network.torso.parameters()))
    assert not reached.any(), "a gradient went through the last step's torso"


@pytest.mark.parametrize("lstm_size", [0, 5])
@pytest.mark.parametrize("actions", [ACTIONS, ACTIONS + 3, 2])
def test_weights_fit_a_network_with_another_number_of_actions(lstm_size: int, actions: int) -> None:
    """Without a previous action, values are the same. The policy is the same where the actions are as many."""
    saved, inputs = small_network(lstm_size), random_input(3, 2, (2, 20, 20), lstm_size)
    inputs.previous_actions.fill_(-1)
    torch.manual_seed(1)
    network = picture_network("impala_shallow", (2, 20, 20), actions, lstm_size, projected_size=3)
    own = network(inputs).logits
    network.load_saved(network.adapted(saved.state_dict()))
    before, after = saved(inputs), network(inputs)
    torch.testing.assert_close(after.values, before.values)
    torch.testing.assert_close(after.lstm_state, before.lstm_state)
    if actions == ACTIONS:
        torch.testing.assert_close(after.logits, before.logits)
    else:
        assert after.logits.shape == own.shape and after.logits.abs().max() < 0.1, "a new head is close to uniform"


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize(("lstm_size", "channels"), [(0, 1), (5, 12)])
def test_every_network_gives_a_policy_and_a_value_for_each_state(name: str, lstm_size: int, channels: int) -> None:
    shape = (channels, 36, 44)
    network = picture_network(name, shape, ACTIONS, lstm_size)
    inputs = random_input(3, 2, shape, lstm_size)
    output = network(inputs)
    assert output.logits.shape == (3, 2, ACTIONS)
    assert output.values.shape == (3, 2)
    assert output.lstm_state.shape == (2, 2, lstm_size)
    assert network.features(inputs.observations[0]).shape == (2, FEATURES[name])
    assert output.features.shape == (3, 2, FEATURES[name])
    torch.testing.assert_close(output.features[0], network.features(inputs.observations[0]), rtol=1e-4, atol=1e-5)
    assert {tensor.dtype for tensor in output} == {torch.float32}


@pytest.mark.parametrize("name", FEATURES)
def test_the_background_is_subtracted(name: str) -> None:
    """A picture on another background has the same features."""
    torch.manual_seed(0)
    network = picture_network(name, (4, 36, 36), ACTIONS)
    picture, scenery = torch.randint(0, 100, (2, 5, 4, 36, 36), dtype=torch.uint8)
    plain = network.features(picture)
    network.update_background_mean(scenery[:1], 1.0)
    torch.testing.assert_close(network.features(picture + scenery[0]), plain, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(network.features(picture), plain, rtol=1e-2)
    network.update_background_mean(torch.zeros_like(scenery), 0.25)
    torch.testing.assert_close(network.background, 0.75 * scenery[0])


@pytest.mark.parametrize("name", FEATURES)
def test_the_first_policy_is_close_to_uniform_but_depends_on_the_state(name: str) -> None:
    torch.manual_seed(0)
    network = picture_network(name, (4, 36, 36), ACTIONS)
    policy = network(random_input(1, 32, (4, 36, 36))).logits.softmax(-1)
    assert (policy - 1 / ACTIONS).abs().max() < 0.02
    assert policy.std(1).max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pixels_reach_the_torso_between_0_and_1(dtype: torch.dtype) -> None:
    network = small_network(compute_dtype=dtype)
    seen: list[torch.Tensor] = []
    network.torso.register_forward_pre_hook(lambda _torso, args: seen.append(args[0]))
    gray = torch.arange(256, dtype=torch.uint8).repeat(25)[: 8 * 2 * 20 * 20].view(8, 2, 20, 20)
    before = gray.clone()
    network.features(gray)
    assert seen[0].dtype == dtype
    assert torch.equal(seen[0].float(), gray.float() / 256)
    network.background.fill_(100.0)
    network.features(gray.contiguous(memory_format=torch.channels_last))
    assert torch.equal(seen[1].float(), (gray.float() - 100) / 256)
    assert torch.equal(gray, before)


def test_features_are_the_torso_of_scaled_pixels_of_each_state() -> None:
    network = small_network()
    states = random_input(1, 6, (2, 20, 20)).observations[0]
    features = network.features(states)
    torch.testing.assert_close(features, network.torso(states.float() / 256), rtol=1e-5, atol=1e-6)
    alone = torch.cat([network.features(state[None]) for state in states])
    torch.testing.assert_close(features, alone, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(network.features(states.flip(0)), features.flip(0), rtol=1e-5, atol=1e-6)


def test_steps_and_environments_keep_their_indices() -> None:
    network = small_network()
    inputs = random_input(3, 4, (2, 20, 20))
    output = network(inputs)
    for t, b in np.ndindex(3, 4):
        features = network.features(inputs.observations[t, b : b + 1])
        torch.testing.assert_close(output.logits[t, b], network.policy_head(features)[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(output.values[t, b], network.value_head(features)[0, 0], rtol=1e-4, atol=1e-5)


def test_without_an_lstm_the_output_depends_on_the_observation_only() -> None:
    network = small_network()
    inputs = random_input(3, 2, (2, 20, 20))
    other = random_input(3, 2, (2, 20, 20), starts=(1,), seed=1)._replace(observations=inputs.observations)
    assert torch.equal(network(inputs).logits, network(other).logits)


@pytest.mark.parametrize("name", FEATURES)
def test_every_weight_gets_a_gradient(name: str) -> None:
    network = picture_network(name, (2, 36, 36), ACTIONS, lstm_size=4)
    output = network(random_input(2, 3, (2, 36, 36), 4))
    (output.logits.square().sum() + output.values.square().sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


def test_only_the_torso_computes_in_bfloat16() -> None:
    network, exact = small_network(4, torch.bfloat16), small_network(4)
    inputs = random_input(3, 4, (2, 20, 20), 4)
    output, expected = network(inputs), exact(inputs)
    assert {tensor.dtype for tensor in output} == {torch.float32}
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    features = network.features(inputs.observations[0])
    assert features.dtype == torch.float32
    assert torch.equal(features, features.bfloat16().float())
    assert not torch.equal(output.logits, output.logits.bfloat16().float())
    torch.testing.assert_close(output.logits, expected.logits, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("compute_dtype", [torch.float32, torch.bfloat16])
def test_the_projection_preserves_distances_and_is_not_trained(compute_dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = picture_network("impala_shallow", (2, 20, 20), ACTIONS, 0, compute_dtype, projected_size=100)
    features = torch.randn(30, 256).abs()
    projected = network.project(features)
    assert (projected.shape, projected.dtype) == ((30, 100), torch.float16)
    torch.testing.assert_close(projected.float(), features @ network.projection, rtol=1e-3, atol=1e-3)
    ratios = torch.pdist(projected.float()) / torch.pdist(features)
    assert ratios.min() > 0.5 and ratios.max() < 1.5
    assert ratios.mean() == pytest.approx(1, abs=0.05)
    assert all(parameter is not network.projection for parameter in network.parameters())
    assert "projection" in network.state_dict()


def test_without_a_projection_there_are_no_features_to_store() -> None:
    network = picture_network("impala_shallow", (2, 20, 20), ACTIONS)
    assert network.project(torch.ones(3, 256)).shape == (3, 0)


def test_the_layout_of_unrolls_decides_the_sizes_of_the_network() -> None:
    layout = UnrollLayout(
        unroll_length=2, frame_stack=3, frame_shape=(3, 20, 24), action_sizes=(7,), lstm_size=5, feature_size=6
    )
    network = ActorCritic(NetworkOptions(network="impala_shallow"), layout, torch.float32)
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    assert first.in_channels == 9
    assert (network.policy_head.out_features, network.lstm_size) == (7, 5)
    assert network.projection.shape == (256, 6)
    assert network(random_input(1, 1, (9, 20, 24), 5)).logits.shape == (1, 1, 7)


@pytest.mark.parametrize(("saved_size", "own_size"), [(6, 0), (0, 6), (6, 6), (6, 4)])
def test_a_checkpoint_with_another_projection_is_loaded(saved_size: int, own_size: int) -> None:
    """A test needs no projection, and a run may be resumed with other replays."""
    saved = picture_network("impala_shallow", (2, 20, 20), ACTIONS, projected_size=saved_size)
    own = picture_network("impala_shallow", (2, 20, 20), ACTIONS, projected_size=own_size)
    before = own.projection.clone()
    own.load_saved(saved.state_dict())
    assert torch.equal(own.projection, saved.projection if saved_size == own_size else before)
    for theirs, ours in zip(saved.parameters(), own.parameters(), strict=True):
        assert torch.equal(theirs, ours)
