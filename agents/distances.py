"""How far features lie from each other; smaller is nearer. How far policies do is in `distribution.py`."""

import math

import torch
from torch.nn.functional import normalize

LIMITS = torch.finfo(torch.float32)


@torch.no_grad()
def ln_norm(a: torch.Tensor, b: torch.Tensor, p: float) -> torch.Tensor:
    """‖a − b‖_p, without gradient: `[..., F]`, `[..., F]` → `[...]`; whatever stands before F broadcasts."""
    _check(a, b)
    if not 0 < p < math.inf:
        raise ValueError(f"p must be above 0 and finite, not {p}")
    differences = (a - b).abs()
    # Divided by the largest, their powers cannot overflow, and cannot all vanish; it may itself be 0 or infinite.
    largest = differences.amax(-1, keepdim=True).clamp(LIMITS.tiny, LIMITS.max)
    return largest.squeeze(-1) * (differences / largest).pow(p).sum(-1).pow(1 / p)


@torch.no_grad()
def cosine_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """1 − a·b / (‖a‖ ‖b‖), without gradient: `[..., F]`, `[..., F]` → `[...]`; whatever stands before F broadcasts.

    A zero vector has distance 1 to everything, itself included.
    """
    _check(a, b)
    # 1 − u·v of directions u, v is ½‖u − v‖², which does not round small distances away, nor below 0.
    halves = (_direction(a) - _direction(b)).square().sum(-1) / 2
    both_point_somewhere = a.any(-1) & b.any(-1)
    return torch.where(both_point_somewhere, halves, 1.0)


def _direction(vectors: torch.Tensor) -> torch.Tensor:
    """The vectors with length 1: `[..., F]` → `[..., F]`; NaN for a zero vector, which has no direction."""
    # Squares of huge numbers overflow, and those of tiny ones vanish: the largest becomes ±1 before they are taken.
    return normalize(vectors / vectors.abs().amax(-1, keepdim=True), dim=-1)


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    if not a.dim() or not b.dim() or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"both must be [..., F] with the same F, not {tuple(a.shape)} and {tuple(b.shape)}")
