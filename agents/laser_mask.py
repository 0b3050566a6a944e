"""The mask of LASER (Schmitt et al. 2019, arXiv 1909.11583): which states are near enough to the current policy."""

import torch

from agents.distributions.interface import PolicyDistribution


@torch.no_grad()
def trusted_states(
    distribution: PolicyDistribution,
    target_logits: torch.Tensor,
    behaviour_logits: torch.Tensor,
    rho_bar: float,
    threshold: float,
) -> torch.Tensor:
    """The mask KL(π ‖ π̃) < threshold, π̃ ∝ min(ρ̄·μ, π): `[T, B, P]`, `[T, B, P]` → `[T, B]`."""
    return distribution.implied_divergence(target_logits, behaviour_logits, rho_bar) < threshold
