"""The terms of the loss. Each is a sum over the states under `mask [T, B]`; targets get no gradient.

Nothing outside the mask counts: a stored number that is not finite there changes neither the loss nor its gradient.
"""

import torch

from agents.distributions.interface import PolicyDistribution


def policy_gradient_loss(
    distribution: PolicyDistribution,
    logits: torch.Tensor,
    actions: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """−Σ A_t log π(a_t): `[T, B, P]`, `[T, B, ...]`, `[T, B]` → scalar."""
    log_probabilities = distribution.log_prob(logits, where_counted(mask, actions))
    return -(log_probabilities * torch.where(mask, advantages.detach(), 0.0)).sum()


def where_counted(mask: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """The actions under `mask [T, B]`, and 0 elsewhere: `[T, B, ...]` → the same shape.

    Real-valued actions outside the mask need not be finite, and 0 · NaN would be NaN.
    """
    return torch.where(mask.view(*mask.shape, *(1,) * (actions.dim() - mask.dim())), actions, 0)


def value_loss(values: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """½ Σ (v_t − V_t)²: `[T, B]`, `[T, B]` → scalar."""
    return 0.5 * torch.where(mask, targets.detach() - values, 0.0).square().sum()


def entropy_loss(distribution: PolicyDistribution, logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """−Σ H(π): `[T, B, P]` → scalar; smaller for a more random policy."""
    return -(distribution.entropy(logits) * mask).sum()


def policy_cloning_loss(
    distribution: PolicyDistribution, logits: torch.Tensor, behaviour_logits: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Σ KL(μ ‖ π): `[T, B, P]`, `[T, B, P]` → scalar.

    On replayed states it is the policy cloning of CLEAR (Rolnick et al. 2018, arXiv 1811.11682), on fresh ones the KL
    penalty of PPO (Schulman et al. 2017, arXiv 1707.06347, section 4).
    """
    # The gradient of KL would turn 0 · NaN into NaN, so stored logits outside the mask are left out before.
    stored = torch.where(mask.unsqueeze(-1), behaviour_logits.detach(), 0.0)
    return (distribution.kl_divergence(stored, logits) * mask).sum()


def value_cloning_loss(values: torch.Tensor, stored_values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Σ (V − V_replay)², the value cloning of CLEAR: `[T, B]`, `[T, B]` → scalar."""
    return torch.where(mask, values - stored_values.detach(), 0.0).square().sum()
