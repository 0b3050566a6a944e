"""Torsos: networks from pixels to features. A torso is a module `[N, S*C, H, W]` → `[N, F]`."""

import torch
from torch import nn

from options.rules import UsageError

SQRT_2 = 2.0**0.5  # the gain of layers that end in a ReLU


def make_torso(name: str, observation_shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
    """The torso of `--network` for observations `[S*C, H, W]`, and its number of features, F."""
    channels = observation_shape[0]
    if name == "nature":
        convolutions = _convolutions(channels, [(32, 8, 4), (64, 4, 2), (64, 3, 1)])
        hidden = 512
    elif name == "impala_shallow":
        convolutions = _convolutions(channels, [(16, 8, 4), (32, 4, 2)])
        hidden = 256
    elif name == "conv3":
        convolutions = _convolutions(channels, [(64, 3, 3), (64, 3, 2), (128, 3, 2)])
        hidden = 512
    elif name == "impala_deep":
        blocks = [ResidualSection(i, o) for i, o in ((channels, 16), (16, 32), (32, 32))]
        convolutions = nn.Sequential(*blocks, nn.ReLU())
        hidden = 256
    else:
        raise ValueError(f"there is no network named {name}")
    try:
        with torch.no_grad():
            flat_size = convolutions(torch.zeros(1, *observation_shape)).numel()
    except RuntimeError:  # a kernel is larger than its input
        height, width = observation_shape[1:]
        raise UsageError(
            f"--frame_scale_resolution={height},{width} is too small for --network={name}; 84,84 would be right."
        ) from None
    return nn.Sequential(convolutions, nn.Flatten(), nn.Linear(flat_size, hidden), nn.ReLU()), hidden


def initialise_torso(torso: nn.Module) -> None:
    """Orthogonal weights and zero biases."""
    for module in torso.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            orthogonal_(module, SQRT_2)
    for section in torso.modules():
        if isinstance(section, ResidualSection):
            section.start_near_identity()


class ResidualSection(nn.Module):
    """A section of the deep network of IMPALA: convolution, pooling, two residual blocks."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(),
                nn.Conv2d(out_channels, out_channels, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(out_channels, out_channels, 3, padding=1),
            )
            for _ in range(2)
        )

    def start_near_identity(self) -> None:
        """Start with a small output of each block: with full gain, the features would grow from block to block."""
        for block in self.blocks:
            assert isinstance(block, nn.Sequential)
            last = block[-1]
            assert isinstance(last, nn.Conv2d)
            orthogonal_(last, 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.convolution(x))
        for block in self.blocks:
            x = x + block(x)
        return x


def _convolutions(in_channels: int, layers: list[tuple[int, int, int]]) -> nn.Sequential:
    modules: list[nn.Module] = []
    for out_channels, kernel, stride in layers:
        modules += [nn.Conv2d(in_channels, out_channels, kernel, stride), nn.ReLU()]
        in_channels = out_channels
    return nn.Sequential(*modules)


def orthogonal_(layer: nn.Conv2d | nn.Linear, gain: float) -> None:
    """Set orthogonal weights, scaled by `gain`, and zero biases."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
