"""All weights of a network as one vector, for shared memory and for other processes."""

from collections.abc import Iterator

import torch
from torch import nn


def weight_count(network: nn.Module) -> int:
    """The length of the vector."""
    return sum(weight.numel() for weight in _weights(network))


def _weights(network: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers, in a fixed order."""
    return [*network.parameters(), *network.buffers()]


@torch.no_grad()
def flat_weights(network: nn.Module) -> torch.Tensor:
    """A new vector `[weight_count]`, float32 on the network's device."""
    return torch.cat([weight.reshape(-1) for weight in _weights(network)]).float()


@torch.no_grad()
def write_flat_weights(network: nn.Module, flat: torch.Tensor) -> None:
    """Write all weights to `flat [weight_count]`, which may be on another device."""
    for weight, part in _pairs(network, flat):
        part.copy_(weight)


@torch.no_grad()
def load_flat_weights(network: nn.Module, flat: torch.Tensor) -> None:
    """Copy `flat [weight_count]` to the weights; dtypes and memory formats of the network stay as they are."""
    for weight, part in _pairs(network, flat):
        weight.copy_(part)


def _pairs(network: nn.Module, flat: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each weight with its part of `flat`, a view of the same shape."""
    weights = _weights(network)
    for weight, part in zip(weights, torch.split(flat, [weight.numel() for weight in weights]), strict=True):
        yield weight, part.view(weight.shape)
