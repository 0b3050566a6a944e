"""Weights as one flat tensor."""

import pytest
import torch

from agents.acting import flat_weights, load_flat_weights, weight_count, write_flat_weights
from tests.agents.networks import random_input, small_network


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
