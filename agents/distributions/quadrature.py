"""Means over a policy by a fixed set of evenly spread points, for what has no closed form."""

import math
from functools import cache

import torch
from torch.quasirandom import SobolEngine

from replay.row_layout import on_device

POINTS = 128


@cache
def fixed_points(dimensions: int) -> torch.Tensor:
    """The same points in (0, 1)^K each time, a scrambled Sobol sequence: float64 `[POINTS, K]`."""
    points: torch.Tensor = SobolEngine(dimensions, scramble=True, seed=0).draw(POINTS, dtype=torch.float64)  # type: ignore[no-untyped-call]
    return points.clamp(2**-32, 1 - 2**-32)


def points_for(dimensions: int, device: torch.device) -> torch.Tensor:
    """The fixed points on `device`, or on the CPU where it cannot sample actions by them.

    MPS has no float64, and cumulative sums on CUDA are not deterministic.
    """
    is_restricted = device.type == "cuda" and torch.are_deterministic_algorithms_enabled()
    place = torch.device("cpu") if device.type == "mps" or is_restricted else device
    return on_device(fixed_points(dimensions).numpy(), place)


def mean_divergence(log_ratios: torch.Tensor, rho_bar: float) -> torch.Tensor:
    """KL(π ‖ π̃), π̃ ∝ min(ρ̄·μ, π), from log π(a) − log μ(a) at evenly weighted actions of π: `[..., N]` → `[...]`.

    π̃ = min(1, ρ̄·μ/π)·π / Z with Z = E_π[min(1, ρ̄·μ/π)], so KL(π ‖ π̃) = E_π[max(0, log π/(ρ̄·μ))] + log Z. With
    means over points in place of expectations, it is still never negative, and 0 where the ratio never exceeds ρ̄.
    """
    excess = (log_ratios - math.log(rho_bar)).clamp(min=0)
    log_z = torch.logsumexp(-excess, -1) - math.log(excess.shape[-1])
    return excess.mean(-1) + log_z
