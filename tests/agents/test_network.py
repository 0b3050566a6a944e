from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from agents.flat_weights import flat_weights, load_flat_weights, weight_count, write_flat_weights
from agents.network import ActorCritic, NetworkInput, make_network
from agents.torsos import ResidualSection, make_torso
from option_flags import NetworkOptions
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from tests.agents.slow_versions import Array

FEATURES = {"nature": 512, "impala_shallow": 256, "conv3": 512, "impala_deep": 256}
ACTIONS = 4


def random_input(
    steps: int, batch: int, shape: tuple[int, int, int], lstm_size: int = 0, starts: tuple[int, ...] = (), seed: int = 0
) -> NetworkInput:
    """Random states; in every environment, episodes start at the steps `starts`."""
    generator = torch.Generator().manual_seed(seed)
    inputs = NetworkInput(
        observations=torch.randint(0, 256, (steps, batch, *shape), dtype=torch.uint8, generator=generator),
        previous_actions=torch.randint(0, ACTIONS, (steps, batch), dtype=torch.int32, generator=generator),
        previous_rewards=torch.randn((steps, batch), generator=generator),
        starts=torch.zeros(steps, batch, dtype=torch.bool),
        lstm_state=torch.randn(batch, 2, lstm_size, generator=generator),
    )
    for start in starts:
        inputs.starts[start] = True
        inputs.previous_actions[start] = -1
        inputs.previous_rewards[start] = 0
    return inputs


def cut(inputs: NetworkInput, first: int, last: int, lstm_state: torch.Tensor) -> NetworkInput:
    return NetworkInput(
        observations=inputs.observations[first:last],
        previous_actions=inputs.previous_actions[first:last],
        previous_rewards=inputs.previous_rewards[first:last],
        starts=inputs.starts[first:last],
        lstm_state=lstm_state,
    )


def small_network(lstm_size: int = 0, compute_dtype: torch.dtype = torch.float32, seed: int = 0) -> ActorCritic:
    torch.manual_seed(seed)
    network = ActorCritic("impala_shallow", (2, 20, 20), ACTIONS, lstm_size, compute_dtype, projected_size=3)
    with torch.no_grad():  # a policy that depends on the state and on biases
        for parameter in (*network.policy_head.parameters(), *network.value_head.parameters()):
            parameter.normal_(0, 0.5)
    return network


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


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize(("lstm_size", "channels"), [(0, 1), (5, 12)])
def test_every_network_gives_a_policy_and_a_value_for_each_state(name: str, lstm_size: int, channels: int) -> None:
    shape = (channels, 36, 44)
    network = ActorCritic(name, shape, ACTIONS, lstm_size)
    inputs = random_input(3, 2, shape, lstm_size)
    output = network(inputs)
    assert output.logits.shape == (3, 2, ACTIONS)
    assert output.values.shape == (3, 2)
    assert output.lstm_state.shape == (2, 2, lstm_size)
    assert network.features(inputs.observations[0]).shape == (2, FEATURES[name])
    assert output.features.shape == (3, 2, FEATURES[name])
    torch.testing.assert_close(output.features[0], network.features(inputs.observations[0]), rtol=1e-4, atol=1e-5)
    assert {tensor.dtype for tensor in output} == {torch.float32}


@pytest.mark.parametrize(
    ("name", "convolutions", "flat"),
    [
        ("nature", [(32, 8, 4), (64, 4, 2), (64, 3, 1)], 7 * 7 * 64),
        ("impala_shallow", [(16, 8, 4), (32, 4, 2)], 9 * 9 * 32),
        ("conv3", [(64, 3, 3), (64, 3, 2), (128, 3, 2)], 6 * 6 * 128),
        ("impala_deep", [(16, 3, 1)] * 5 + [(32, 3, 1)] * 10, 11 * 11 * 32),
    ],
)
def test_the_layers_are_as_in_the_papers(name: str, convolutions: list[tuple[int, int, int]], flat: int) -> None:
    """Layers are recorded in the order of a forward pass, not taken from the list of modules."""
    torso, size = make_torso(name, (4, 84, 84))
    passed: list[Any] = []
    for module in torso.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(lambda layer, _input, _output: passed.append(layer))
    assert torso(torch.zeros(1, 4, 84, 84)).shape == (1, size)
    *layers, hidden = passed
    assert all(isinstance(layer, nn.Conv2d) for layer in layers)
    seen = [(layer.out_channels, layer.kernel_size, layer.stride) for layer in layers]
    assert seen == [(channels, (kernel,) * 2, (stride,) * 2) for channels, kernel, stride in convolutions]
    assert (hidden.in_features, hidden.out_features) == (flat, FEATURES[name])


def test_the_deep_network_adds_each_block_to_its_input() -> None:
    """With blocks whose output is 0, a section is only its convolution and its pooling."""
    torso: Any = make_torso("impala_deep", (4, 36, 36))[0]
    sections = list(torso[0])[:3]
    for section in sections:
        for block in section.blocks:
            nn.init.zeros_(block[-1].weight)
            nn.init.zeros_(block[-1].bias)
    pictures = torch.rand(2, 4, 36, 36)
    expected = pictures
    for section in sections:
        convolved = nn.functional.conv2d(expected, section.convolution.weight, section.convolution.bias, padding=1)
        expected = nn.functional.max_pool2d(convolved, 3, 2, 1)
    torch.testing.assert_close(torso[0](pictures), expected.relu())


def assert_orthogonal(weight: torch.Tensor, gain: float) -> None:
    """The rows (or the columns, if they are fewer) are orthogonal and have the length `gain`."""
    matrix = weight.detach().double().flatten(1)
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    torch.testing.assert_close(gram, gain**2 * torch.eye(len(gram), dtype=torch.float64), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", FEATURES)
def test_initial_weights_are_orthogonal_and_biases_zero(name: str) -> None:
    network = ActorCritic(name, (1, 36, 36), ACTIONS, lstm_size=6)
    layers = [module for module in network.torso.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    sections = [module for module in network.torso.modules() if isinstance(module, ResidualSection)]
    small = {block.get_submodule("3") for section in sections for block in section.blocks}
    assert len(small) == (6 if name == "impala_deep" else 0)
    for layer in layers:
        assert_orthogonal(layer.weight, 0.2 if layer in small else 2**0.5)
    assert_orthogonal(network.policy_head.weight, 0.01)
    assert_orthogonal(network.value_head.weight, 1.0)
    assert network.lstm is not None
    for weights in network.lstm.all_weights[0][:2]:
        for gate in weights.chunk(4):
            assert_orthogonal(gate, 1.0)
    biases = {name: parameter for name, parameter in network.named_parameters() if "bias" in name}
    assert len(biases) == len(layers) + 4
    assert not any(parameter.any() for parameter in biases.values())


@pytest.mark.parametrize("name", FEATURES)
def test_the_background_is_subtracted(name: str) -> None:
    """A picture on another background has the same features."""
    torch.manual_seed(0)
    network = ActorCritic(name, (4, 36, 36), ACTIONS)
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
    network = ActorCritic(name, (4, 36, 36), ACTIONS)
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


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_the_lstm_takes_features_previous_action_and_reward() -> None:
    """Gate by gate in numpy. An episode start resets the state, and has no previous action."""
    size, steps, batch = 3, 6, 2
    network = small_network(size)
    assert network.lstm is not None
    for name, parameter in network.lstm.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    inputs = random_input(steps, batch, (2, 20, 20), size, starts=(4,))
    inputs.starts[2, 0] = True
    output = network(inputs)
    weights = {name: parameter.detach().double().numpy() for name, parameter in network.lstm.named_parameters()}
    head = network.policy_head.weight.detach().double().numpy(), network.policy_head.bias.detach().double().numpy()
    for b in range(batch):
        h, c = inputs.lstm_state[b].double().numpy()
        for t in range(steps):
            if inputs.starts[t, b]:
                h, c = np.zeros(size), np.zeros(size)
            features = network.features(inputs.observations[t, b : b + 1])[0].detach().double().numpy()
            one_hot = [float(inputs.previous_actions[t, b] == action) for action in range(ACTIONS)]
            x = np.concatenate([features, one_hot, [inputs.previous_rewards[t, b].item()]])
            gates = weights["weight_ih_l0"] @ x + weights["weight_hh_l0"] @ h
            i, f, g, o = np.split(gates + weights["bias_ih_l0"] + weights["bias_hh_l0"], 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            np.testing.assert_allclose(output.logits[t, b].detach(), head[0] @ h + head[1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(output.lstm_state[b].detach(), [h, c], rtol=1e-4, atol=1e-5)


def test_an_unroll_at_once_equals_its_steps_one_by_one() -> None:
    network = small_network(lstm_size=8)
    inputs = random_input(7, 3, (2, 20, 20), 8, starts=(3,))
    at_once = network(inputs)
    state = inputs.lstm_state
    for t in range(7):
        step = network(cut(inputs, t, t + 1, state))
        state = step.lstm_state
        torch.testing.assert_close(step.logits[0], at_once.logits[t], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(step.values[0], at_once.values[t], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, at_once.lstm_state, rtol=1e-5, atol=1e-5)


def test_an_episode_start_resets_the_lstm_state() -> None:
    network = small_network(lstm_size=8)
    inputs = random_input(6, 2, (2, 20, 20), 8, starts=(3,))
    other = random_input(6, 2, (2, 20, 20), 8, starts=(3,), seed=1)
    for mine, others in zip(inputs[:4], other[:4], strict=True):
        others[3:] = mine[3:]
    output, after = network(inputs), network(other)
    torch.testing.assert_close(after.logits[3:], output.logits[3:], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after.lstm_state, output.lstm_state, rtol=1e-5, atol=1e-5)
    other.starts[3] = False
    assert (network(other).logits[3] - output.logits[3]).abs().max() > 1e-2


def test_the_given_lstm_state_is_not_changed() -> None:
    network = small_network(lstm_size=8)
    inputs = random_input(3, 2, (2, 20, 20), 8, starts=(0,))
    before = inputs.lstm_state.clone()
    network(inputs)
    assert torch.equal(inputs.lstm_state, before)


@pytest.mark.parametrize("name", FEATURES)
def test_every_weight_gets_a_gradient(name: str) -> None:
    network = ActorCritic(name, (2, 36, 36), ACTIONS, lstm_size=4)
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


@pytest.mark.parametrize("channels_last", [False, True])
def test_flat_weights_make_two_networks_equal(channels_last: bool) -> None:
    network, other = small_network(4, seed=0), small_network(4, seed=1)
    if channels_last:
        other = other.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    flat = flat_weights(network)
    assert (flat.shape, flat.dtype) == ((weight_count(network),), torch.float32)
    assert not torch.equal(flat_weights(other), flat)
    load_flat_weights(other, flat)
    assert torch.equal(flat_weights(other), flat)
    for mine, others in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, others)
    for each in (network, other):
        written = torch.zeros_like(flat)
        write_flat_weights(each, written)
        assert torch.equal(written, flat)
    assert network.projection.shape == (256, 3)
    assert torch.equal(network.projection, other.projection)
    inputs = random_input(1, 3, (2, 20, 20), 4)
    torch.testing.assert_close(other(inputs).logits, network(inputs).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compute_dtype", [torch.float32, torch.bfloat16])
def test_the_projection_preserves_distances_and_is_not_trained(compute_dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = ActorCritic("impala_shallow", (2, 20, 20), ACTIONS, 0, compute_dtype, projected_size=100)
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
    network = ActorCritic("impala_shallow", (2, 20, 20), ACTIONS)
    assert network.project(torch.ones(3, 256)).shape == (3, 0)


def test_flat_weights_are_a_copy() -> None:
    network = small_network()
    flat = flat_weights(network)
    before = flat.clone()
    with torch.no_grad():
        network.value_head.bias.add_(1)
    assert torch.equal(flat, before)
    load_flat_weights(network, flat)
    flat.zero_()
    assert torch.equal(flat_weights(network), before)


def test_loaded_weights_are_rounded_only_in_bfloat16_layers() -> None:
    network, other = small_network(4, seed=0), small_network(4, seed=1)
    other.torso.bfloat16()
    load_flat_weights(other, flat_weights(network))
    for (name, mine), others in zip(network.named_parameters(), other.parameters(), strict=True):
        assert others.dtype == (torch.bfloat16 if name.startswith("torso") else torch.float32)
        assert torch.equal(others, mine.to(others.dtype))


def test_flat_weights_of_another_size_are_refused() -> None:
    network = small_network()
    with pytest.raises(RuntimeError):
        load_flat_weights(network, torch.zeros(weight_count(network) + 1))


@pytest.mark.parametrize(("name", "smallest"), [("nature", 36), ("impala_shallow", 20), ("conv3", 21)])
def test_too_small_pictures_are_refused(name: str, smallest: int) -> None:
    make_torso(name, (1, smallest, smallest))
    for height, width in ((smallest - 1, 84), (84, smallest - 1), (1, 1)):
        with pytest.raises(UsageError, match=f"--frame_scale_resolution={height},{width} is too small .*{name}"):
            make_torso(name, (1, height, width))


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(ValueError, match="no network named deepest"):
        make_torso("deepest", (4, 84, 84))


def test_the_layout_of_unrolls_decides_the_sizes_of_the_network() -> None:
    layout = UnrollLayout(
        unroll_length=2, frame_stack=3, frame_shape=(3, 20, 24), action_count=7, lstm_size=5, feature_size=6
    )
    network = make_network(NetworkOptions(network="impala_shallow"), layout, torch.float32)
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    assert first.in_channels == 9
    assert (network.action_count, network.policy_head.out_features, network.lstm_size) == (7, 7, 5)
    assert network.projection.shape == (256, 6)
    assert network(random_input(1, 1, (9, 20, 24), 5)).logits.shape == (1, 1, 7)


@pytest.mark.parametrize(("saved_size", "own_size"), [(6, 0), (0, 6), (6, 6), (6, 4)])
def test_a_checkpoint_with_another_projection_is_loaded(saved_size: int, own_size: int) -> None:
    """A test needs no projection, and a run may be resumed with other replays."""
    saved = ActorCritic("impala_shallow", (2, 20, 20), ACTIONS, projected_size=saved_size)
    own = ActorCritic("impala_shallow", (2, 20, 20), ACTIONS, projected_size=own_size)
    before = own.projection.clone()
    own.load_saved(saved.state_dict())
    assert torch.equal(own.projection, saved.projection if saved_size == own_size else before)
    for theirs, ours in zip(saved.parameters(), own.parameters(), strict=True):
        assert torch.equal(theirs, ours)
