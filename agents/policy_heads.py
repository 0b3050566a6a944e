"""The last layer of the policy: from features to the parameters of its distribution."""

import math

import torch
from torch import nn

from agents.distributions.diagonal_gaussian import (
    LARGEST_LOG_DEVIATION,
    SMALLEST_LOG_DEVIATION,
    DiagonalGaussian,
)
from agents.distributions.interface import PolicyDistribution
from agents.head import Head

# Of the deviations of real-valued actions, where 1 is half the range of a bounded one. With a smaller one, few of the
# first actions are beyond the bounds. Andrychowicz et al. (2021, arXiv 2006.05990) found 0.5 to be the best start.
FIRST_LOG_DEVIATION = math.log(0.5)


class GaussianHead(Head):
    """The means of `dimensions` real numbers; the logarithms of their deviations do not depend on the state."""

    def __init__(self, part: slice, dimensions: int) -> None:
        super().__init__(part, dimensions)
        self.log_deviations = nn.Parameter(torch.full((dimensions,), FIRST_LOG_DEVIATION))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """`[..., F]` → `[..., 2K]`."""
        means = super().forward(features)
        return torch.cat([means, self.log_deviations.expand_as(means)], dim=-1)

    @torch.no_grad()
    def keep_in_range(self) -> None:
        """After a step of the optimizer. Beyond the range the gradient is 0, so that no step would lead back."""
        self.log_deviations.clamp_(SMALLEST_LOG_DEVIATION, LARGEST_LOG_DEVIATION)


def make_policy_head(distribution: PolicyDistribution, part: slice) -> Head:
    """`[..., F]` → `[..., P]`; `part` are the features that are for the policy."""
    if isinstance(distribution, DiagonalGaussian):
        return GaussianHead(part, distribution.dimensions)
    return Head(part, distribution.parameter_count)
