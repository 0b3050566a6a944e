"""Distances between features; smaller is nearer. The distance between policies, KL, is in `distributions/`."""

import math

import torch
from torch.nn.functional import normalize

LIMITS = torch.finfo(torch.float32)


@torch.no_grad()
def ln_norm(a: torch.Tensor, b: torch.Tensor, p: float) -> torch.Tensor:
    """‖a − b‖_p, without gradient: `[..., F]`, `[..., F]` → `[...]`; the dimensions before F broadcast."""
    _check(a, b)
    if not 0 < p < math.inf:
        raise ValueError(f"p must be above 0 and finite, not {p}")
    differences = (a - b).abs()
    # Powers of x / max(x) can neither overflow nor all underflow. The maximum may be 0 or infinite.
    largest = differences.amax(-1, keepdim=True).clamp(LIMITS.tiny, LIMITS.max)
    return largest.squeeze(-1) * (differences / largest).pow(p).sum(-1).pow(1 / p)


@torch.no_grad()
def cosine_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """1 − a·b / (‖a‖ ‖b‖), without gradient: `[..., F]`, `[..., F]` → `[...]`; the dimensions before F broadcast.

    A zero vector has distance 1 to every vector, also to itself.
    """
    _check(a, b)
    # For unit vectors, 1 − u·v = ½‖u − v‖². The right side is exact for small distances, and never below 0.
    halves = (_direction(a) - _direction(b)).square().sum(-1) / 2
    both_nonzero = a.any(-1) & b.any(-1)
    return torch.where(both_nonzero, halves, 1.0)


def _direction(vectors: torch.Tensor) -> torch.Tensor:
    """Unit vectors: `[..., F]` → `[..., F]`; NaN for a zero vector."""
    # Scaled first, so that the squares neither overflow nor underflow.
    return normalize(vectors / vectors.abs().amax(-1, keepdim=True), dim=-1)


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    if not a.dim() or not b.dim() or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"both must be [..., F] with the same F, not {tuple(a.shape)} and {tuple(b.shape)}")
