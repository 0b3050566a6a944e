"""The last layer of the values. PopArt (van Hasselt et al. 2016, arXiv 1602.07714; with IMPALA: Hessel et al. 2018,
arXiv 1809.04474) lets it work in units of the returns' own size.
"""

import torch

from agents.head import Head

SMALLEST_UNIT, LARGEST_UNIT = 1e-4, 1e6


class ValueHead(Head):
    """Features → values: `[..., F]` → `[..., 1]`."""

    def __init__(self, part: slice) -> None:
        super().__init__(part, 1)
        self.unit: torch.Tensor | None
        self.register_buffer("unit", None)

    def in_units(self, values: torch.Tensor) -> torch.Tensor:
        """Values, or differences of values, as the losses see them."""
        return values if self.unit is None else values / self.unit


class PopArtValueHead(ValueHead):
    """Values in units of the deviation of their targets, around the mean of these.

    Both are moving averages. When they change, weights and bias change so that all values stay the same.
    """

    def __init__(self, part: slice) -> None:
        super().__init__(part)
        self.unit: torch.Tensor  # a deviation of 1 until the first update
        self.centre: torch.Tensor
        self.register_buffer("unit", torch.ones(1))
        self.register_buffer("centre", torch.zeros(1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(self.centre, super().forward(features), self.unit)

    @torch.no_grad()
    def follow(self, targets: torch.Tensor, weight: float) -> None:
        """Mean and variance become those of a mixture, in which these targets have the share `weight` in (0, 1]."""
        step = targets.mean() - self.centre
        variance = (1 - weight) * (self.unit.square() + weight * step.square()) + weight * targets.var(correction=0)
        unit, centre = variance.sqrt().clamp(SMALLEST_UNIT, LARGEST_UNIT), self.centre + weight * step
        self.weight.mul_(self.unit / unit)
        self.bias.mul_(self.unit).add_(self.centre - centre).div_(unit)
        self.unit.copy_(unit)
        self.centre.copy_(centre)


def make_value_head(part: slice, popart: bool) -> ValueHead:
    """`part` are the features that are for the value."""
    return PopArtValueHead(part) if popart else ValueHead(part)
