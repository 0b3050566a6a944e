"""The convolutions of the networks for pictures, their initial weights and their order in memory."""

from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

import torch
from torch import nn

from options.rules import UsageError

SQRT_2 = 2.0**0.5  # the gain of layers that end in a ReLU
SMALL = 36  # pixels; pictures with a shorter side are too small for most networks
TINY = 10  # pixels; without padding, too little is left of pictures with a shorter side
MOST_SMALL_PIXELS = 128 * 128  # of a picture for small_conv and tiny_conv, whose dense layer grows with it


class PictureLayers(NamedTuple):
    convolutions: nn.Module  # [N, S*C, H, W] → [N, ...]
    flat_size: int  # numbers for each picture
    hidden: int  # units of the dense layer after them
    normalised: bool = False  # whether layer normalisation comes before each ReLU

    def dense(self, size: int) -> nn.Sequential:
        """The layer after the convolutions, from `size` numbers to features."""
        normalisation = [nn.LayerNorm(self.hidden)] if self.normalised else []
        return nn.Sequential(nn.Linear(size, self.hidden), *normalisation, nn.ReLU())


# Filters, kernel and stride of each convolution, and units of the dense layer; those of impala_deep are blocks, and
# those of small_conv and tiny_conv depend on the picture.
LAYERS: dict[str, tuple[list[tuple[int, int, int]], int]] = {
    "nature": ([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512),
    "nature_norm": ([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512),
    "nature_small": ([(16, 8, 4), (32, 4, 2), (64, 3, 2)], 512),
    "impala_shallow": ([(16, 8, 4), (32, 4, 2)], 256),
    "conv3": ([(64, 3, 3), (64, 3, 2), (128, 3, 2)], 512),
    "impala_deep": ([], 256),
    "small_conv": ([(32, 3, 1), (32, 3, 2)], 128),
    "tiny_conv": ([(32, 3, 1), (32, 3, 2)], 128),
}


def picture_layers(name: str, shape: tuple[int, int, int], width: int = 1) -> PictureLayers:
    """The layers of `--network` for pictures `[S*C, H, W]`, with `width` times as many channels and units."""
    channels, *size = shape
    normalised = name == "nature_norm"
    layers, hidden = LAYERS[name]
    if name in ("small_conv", "tiny_conv"):
        if size[0] * size[1] > MOST_SMALL_PIXELS:
            raise UsageError(
                f"--network={name} is for pictures of at most {MOST_SMALL_PIXELS:,} pixels, not {size[0]}×{size[1]}; "
                "--network=impala_shallow, or a smaller --frame_scale_resolution, would be right."
            )
        if max(size) <= 16:
            layers = [(32, 3, 1), (32, 3, 1)]
    convolutions: nn.Module
    if name == "impala_deep":
        sections = pairwise([channels, 16 * width, 32 * width, 32 * width])
        convolutions = nn.Sequential(*(ResidualSection(*sizes) for sizes in sections), nn.ReLU())
    else:
        wide = [(width * filters, kernel, stride) for filters, kernel, stride in layers]
        convolutions = _convolutions(channels, wide, padding=int(name == "small_conv"), normalised=normalised)
    try:
        with torch.no_grad():
            flat_size = convolutions(torch.zeros(1, *shape)).numel()
    except RuntimeError:  # a kernel is larger than its input
        raise UsageError(
            f"--frame_scale_resolution={size[0]},{size[1]} is too small for --network={name}; 84,84 would be right, "
            "or --network=auto."
        ) from None
    return PictureLayers(convolutions, flat_size, width * hidden, normalised)


def initialise_torso(torso: nn.Module) -> None:
    """Orthogonal weights and zero biases, for torsos of this platform."""
    for module in torso.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            orthogonal_(module, SQRT_2)
    for module in torso.modules():
        if isinstance(module, ResidualBlock):
            module.start_near_identity()


class ResidualBlock(nn.Sequential):
    """Adds the output of two convolutions to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def start_near_identity(self) -> None:
        """Start with a small output: with full gain, the features would grow from block to block."""
        last = self[-1]
        assert isinstance(last, nn.Conv2d)
        orthogonal_(last, 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return x + added


class ResidualSection(nn.Module):
    """A section of the deep network of IMPALA: convolution, pooling, two residual blocks."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.Sequential(ResidualBlock(out_channels), ResidualBlock(out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.blocks(self.pool(self.convolution(x)))
        return features


def _convolutions(
    in_channels: int, layers: list[tuple[int, int, int]], padding: int = 0, normalised: bool = False
) -> nn.Sequential:
    modules: list[nn.Module] = []
    for out_channels, kernel, stride in layers:
        modules.append(nn.Conv2d(in_channels, out_channels, kernel, stride, padding))
        if normalised:
            modules.append(nn.GroupNorm(1, out_channels))  # over channels and places
        modules.append(nn.ReLU())
        in_channels = out_channels
    return nn.Sequential(*modules)


def orthogonal_(layer: nn.Conv2d | nn.Linear, gain: float) -> None:
    """Set orthogonal weights, scaled by `gain`, and zero biases, if there are any."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


Module = TypeVar("Module", bound=nn.Module)


@torch.no_grad()
def channels_last(module: Module) -> Module:
    """Store the weights of two-dimensional convolutions as their inputs are stored; returns the module.

    `Module.to(memory_format=...)` fails where a module has three-dimensional convolutions too.
    """
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.dim() == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    return module
