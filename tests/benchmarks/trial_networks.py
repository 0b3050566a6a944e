"""Networks on trial for Atari's pictures: `--network=tests.benchmarks.trial_networks:narrow`.

`python multi_train.py --sweep=tests/benchmarks/trial_networks.json` trains them. A network that learns more per second
than the default becomes one of `agents/torsos/pictures.py`.
"""

import torch
from gymnasium.spaces import Box
from torch import nn

from agents.torsos.pictures import ResidualBlock, initialise_torso

UNITS = 512  # of the dense layer
Layers = list[tuple[int, int, int]]  # output channels, kernel, stride

NATURE: Layers = [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
NARROWER: Layers = [(16, 8, 4), (32, 4, 2), (64, 3, 1)]
NARROWER_STRIDED: Layers = [(16, 8, 4), (32, 4, 2), (64, 3, 2)]


def nature(space: Box) -> nn.Module:
    """The default network, as a control: the trial must cost nothing by itself."""
    return _torso(space, NATURE)


def narrow(space: Box) -> nn.Module:
    """Half the channels after the first convolution, which makes the largest pictures."""
    return _torso(space, [(16, 8, 4), (64, 4, 2), (64, 3, 1)])


def narrower(space: Box) -> nn.Module:
    """Half the channels after the first two convolutions."""
    return _torso(space, NARROWER)


def narrower_strided(space: Box) -> nn.Module:
    """The same, and a third convolution in steps of two pixels: a dense layer of a third of the size."""
    return _torso(space, NARROWER_STRIDED)


def average_pooled(space: Box) -> nn.Module:
    """Means of 2×2 places before the dense layer, which has a fifth of its size then."""
    return _torso(space, NATURE, before_dense=nn.AvgPool2d(2))


def largest_pooled(space: Box) -> nn.Module:
    """The largest of each 2×2 places before the dense layer."""
    return _torso(space, NATURE, before_dense=nn.MaxPool2d(2))


def fewer_channels(space: Box) -> nn.Module:
    """A 1×1 convolution to 16 channels before the dense layer, which keeps the places apart."""
    return _torso(space, NATURE, before_dense=_to_16_channels())


def narrower_fewer_channels(space: Box) -> nn.Module:
    """`narrower` with that 1×1 convolution."""
    return _torso(space, NARROWER, before_dense=_to_16_channels())


def residual(space: Box) -> nn.Module:
    """Half the channels in two convolutions, and then two residual blocks at their size of 9×9."""
    return _residual(space, blocks=2)


def residual_block(space: Box) -> nn.Module:
    """The same with one block."""
    return _residual(space, blocks=1)


def normalised(space: Box) -> nn.Module:
    """Layer normalisation of each sample after every layer (PQN, arXiv 2407.04811)."""
    return _torso(space, NATURE, norm=True)


def narrower_strided_normalised(space: Box) -> nn.Module:
    """`narrower_strided` with layer normalisation."""
    return _torso(space, NARROWER_STRIDED, norm=True)


def _to_16_channels() -> nn.Module:
    return nn.Sequential(nn.Conv2d(64, 16, 1), nn.ReLU())


def _torso(space: Box, layers: Layers, before_dense: nn.Module | None = None, norm: bool = False) -> nn.Module:
    assert space.shape is not None
    channels = space.shape[0]
    modules: list[nn.Module] = []
    seen = torch.zeros(1, *space.shape)
    for out_channels, kernel, stride in layers:
        modules.append(nn.Conv2d(channels, out_channels, kernel, stride))
        channels = out_channels
        seen = modules[-1](seen)
        modules += [*_norm(norm, seen), nn.ReLU()]
    if before_dense is not None:
        modules.append(before_dense)
        seen = before_dense(seen)
    dense = nn.Linear(seen.numel(), UNITS)
    modules += [nn.Flatten(), dense, *_norm(norm, dense(seen.flatten(1))), nn.ReLU()]
    torso = nn.Sequential(*modules)
    initialise_torso(torso)
    return torso


def _norm(wanted: bool, features: torch.Tensor) -> list[nn.Module]:
    """Normalises each sample over all its numbers, and then scales each channel."""
    return [nn.GroupNorm(1, features.shape[1])] if wanted else []


def _residual(space: Box, blocks: int) -> nn.Module:
    assert space.shape is not None
    (first, kernel, stride), (second, second_kernel, second_stride), _ = NARROWER
    convolutions = nn.Sequential(
        nn.Conv2d(space.shape[0], first, kernel, stride),
        nn.ReLU(),
        nn.Conv2d(first, second, second_kernel, second_stride),
        *(ResidualBlock(second) for _ in range(blocks)),
        nn.ReLU(),
    )
    flat_size = convolutions(torch.zeros(1, *space.shape)).numel()
    torso = nn.Sequential(convolutions, nn.Flatten(), nn.Linear(flat_size, UNITS), nn.ReLU())
    initialise_torso(torso)
    return torso
