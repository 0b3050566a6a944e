"""Figures that show whether learning is healthy; they do not influence it."""

import torch

from agents.distributions.interface import PolicyDistribution


@torch.no_grad()
def diagnose(
    distribution: PolicyDistribution,
    logits: torch.Tensor,
    behaviour_logits: torch.Tensor,
    values: torch.Tensor,
    ratios: torch.Tensor,
    trusted: torch.Tensor,
    fresh: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Scalars of one update, from `[T, B, …]` tensors and `fresh [B]`.

    Figures of fresh unrolls are NaN if the batch has none; the same for replayed unrolls.
    """
    divergence = distribution.kl_divergence(behaviour_logits, logits)
    fresh = fresh.expand_as(values)
    return {
        "entropy": distribution.entropy(logits).mean(),
        "policy_spread": distribution.spread(logits),
        "value_mean": values.mean(),
        "dropped_fresh": mean_where(fresh, (~trusted).float()),
        "dropped_replayed": mean_where(~fresh, (~trusted).float()),
        "kl_fresh": mean_where(fresh, divergence),
        "kl_replayed": mean_where(~fresh, divergence),
        "ratio_fresh": mean_where(fresh, ratios),
        "ratio_replayed": mean_where(~fresh, ratios),
    }


def mean_where(mask: torch.Tensor, figures: torch.Tensor) -> torch.Tensor:
    """The mean of the figures under the mask, NaN if there are none. Indexing would have to wait for the GPU."""
    return torch.where(mask, figures, 0.0).sum() / mask.sum()
