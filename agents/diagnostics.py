"""Figures that show whether learning is healthy; they do not influence it."""

from collections.abc import Mapping

import torch

from agents.losses import Judged


@torch.no_grad()
def figures_of(judged: Judged, terms: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Scalars of one update: the terms of the loss as they are summed, and what the batch says about learning.

    Figures of fresh unrolls are NaN if the batch has none; the same for replayed unrolls.
    """
    policy, unrolls, trusted = judged.policy, judged.unrolls, judged.trusted
    logits, values = judged.logits.detach(), judged.output.values[:-1].detach()
    ratios = judged.trace.ratios
    if judged.reference is not judged.output:  # the ratios are those of the target policy
        log_behaviour = policy.log_prob(unrolls.behaviour_logits, unrolls.actions)
        ratios = (policy.log_prob(logits, unrolls.actions) - log_behaviour).exp()
    divergence = policy.kl_divergence(unrolls.behaviour_logits, logits)
    fresh = unrolls.fresh.expand_as(values)
    return {
        **{name: term.detach() for name, term in terms.items()},
        **judged.figures,
        "entropy": policy.entropy(logits).mean(),
        "policy_spread": policy.spread(logits),
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
