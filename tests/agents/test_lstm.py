"""The LSTM of a network, next to a slow version."""

import numpy as np
import torch
from torch import nn

from agents.network import NetworkInput
from tests.agents.networks import ACTIONS, random_input, small_network
from tests.agents.slow_versions import Array


def cut(inputs: NetworkInput, first: int, last: int, lstm_state: torch.Tensor) -> NetworkInput:
    return NetworkInput(
        observations=inputs.observations[first:last],
        previous_actions=inputs.previous_actions[first:last],
        previous_rewards=inputs.previous_rewards[first:last],
        starts=inputs.starts[first:last],
        lstm_state=lstm_state,
    )


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
