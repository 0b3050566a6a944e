"""The last layers: from features to the parameters of the policy's distribution, and to the value."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from agents.distributions import (
    LARGEST_LOG_DEVIATION,
    SMALLEST_LOG_DEVIATION,
    DiagonalGaussian,
    Mixed,
    PolicyDistribution,
)


class Head(nn.Linear):
    """`part` are the features that it reads: `[..., F]` → `[..., outputs]`."""

    def __init__(self, part: slice, outputs: int) -> None:
        super().__init__(part.stop - part.start, outputs)
        self._part = part

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(features[..., self._part])


# Of the deviations of real-valued actions, where 1 is half the range of a bounded one. With a smaller one, few of the
# first actions are beyond the bounds. Andrychowicz et al. (2021, arXiv 2006.05990) found 0.5 to be the best start.
FIRST_LOG_DEVIATION = math.log(0.5)


class GaussianHead(Head):
    """The logits of `choices`, if there are any, then the means of `dimensions` real numbers and their deviations.

    The logarithms of the deviations do not depend on the state.
    """

    def __init__(self, part: slice, dimensions: int, choices: int = 0) -> None:
        super().__init__(part, choices + dimensions)
        self.log_deviations = nn.Parameter(torch.full((dimensions,), FIRST_LOG_DEVIATION))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """`[..., F]` → `[..., P]`."""
        outputs = super().forward(features)
        return torch.cat([outputs, self.log_deviations.expand(*outputs.shape[:-1], -1)], dim=-1)

    @torch.no_grad()
    def keep_in_range(self) -> None:
        """After a step of the optimizer. Beyond the range the gradient is 0, so that no step would lead back."""
        self.log_deviations.clamp_(SMALLEST_LOG_DEVIATION, LARGEST_LOG_DEVIATION)


class JoystickHead(Head):
    """The logits of actions that are positions of a joystick with a button (Sharma et al. 2017, arXiv 1705.07269).

    A logit is the sum of one output for the action alone and those of the movements that it consists of. So what is
    learned of UP also counts for UPFIRE. Any policy can still be represented.
    """

    def __init__(self, part: slice, action_names: Sequence[str]) -> None:
        movements = movements_of(action_names)
        super().__init__(part, len(action_names))
        self.shared = nn.Linear(self.in_features, len(movements))
        nn.init.zeros_(self.shared.weight)
        nn.init.zeros_(self.shared.bias)
        self.movements: torch.Tensor
        self.register_buffer("movements", movements, persistent=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """`[..., F]` → `[..., A]`."""
        of_movements: torch.Tensor = self.shared(features[..., self._part])
        return super().forward(features) + of_movements @ self.movements


def movements_of(action_names: Sequence[str]) -> torch.Tensor:
    """`[M, A]`, 1 where an action has a movement: to the right, to the left, neither; up, down, neither; FIRE or not.

    Movements that all actions have are left out, and those that none has.
    """
    rows = []
    for words in (("RIGHT", "LEFT"), ("UP", "DOWN"), ("FIRE",)):
        has = [[word in name for name in action_names] for word in words]
        rows += [*has, [not any(found) for found in zip(*has, strict=True)]]
    return torch.tensor([row for row in rows if 0 < sum(row) < len(row)], dtype=torch.float32)


def make_policy_head(distribution: PolicyDistribution, part: slice, joystick: Sequence[str] = ()) -> Head:
    """`[..., F]` → `[..., P]`; `part` are the features that are for the policy.

    `joystick` are the names of the actions, if they are positions of a joystick whose movements share weights.
    """
    if isinstance(distribution, DiagonalGaussian):
        return GaussianHead(part, distribution.dimensions)
    if isinstance(distribution, Mixed):
        return GaussianHead(part, distribution.numbers.dimensions, distribution.choices.parameter_count)
    if joystick:
        return JoystickHead(part, joystick)
    return Head(part, distribution.parameter_count)


SMALLEST_UNIT, LARGEST_UNIT = 1e-4, 1e6


class ValueHead(Head):
    """Features → values: `[..., F]` → `[..., 1]`.

    With PopArt, values are in units of the deviation of their targets, around the mean of these. Both are moving
    averages. When they change, weights and bias change so that all values stay the same.
    """

    def __init__(self, part: slice, popart: bool = False) -> None:
        super().__init__(part, 1)
        self.unit: torch.Tensor | None  # a deviation of 1 until the first update
        self.centre: torch.Tensor | None
        self.register_buffer("unit", torch.ones(1) if popart else None)
        self.register_buffer("centre", torch.zeros(1) if popart else None)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        values = super().forward(features)
        if self.unit is None or self.centre is None:
            return values
        return torch.addcmul(self.centre, values, self.unit)

    def in_units(self, values: torch.Tensor) -> torch.Tensor:
        """Values, or differences of values, as the losses see them."""
        return values if self.unit is None else values / self.unit

    @torch.no_grad()
    def follow(self, targets: torch.Tensor, weight: float) -> None:
        """Mean and variance become those of a mixture, in which these targets have the share `weight` in (0, 1]."""
        assert self.unit is not None and self.centre is not None
        step = targets.mean() - self.centre
        variance = (1 - weight) * (self.unit.square() + weight * step.square()) + weight * targets.var(correction=0)
        unit, centre = variance.sqrt().clamp(SMALLEST_UNIT, LARGEST_UNIT), self.centre + weight * step
        self.weight.mul_(self.unit / unit)
        self.bias.mul_(self.unit).add_(self.centre - centre).div_(unit)
        self.unit.copy_(unit)
        self.centre.copy_(centre)
