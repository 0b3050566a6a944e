"""IMPACT (Luo et al. 2019, arXiv 1912.00167): a clipped surrogate objective around a target policy.

The target network is an earlier copy of the network. V-trace estimates the values of its policy, with its values, so
targets and advantages of a state stay the same until the next copy, as those of PPO do within one iteration.
"""

import math
from typing import NamedTuple

import torch

from agents.distributions.interface import PolicyDistribution
from agents.losses import where_counted

LARGEST_LOG_RATIO = 20.0  # of the surrogate, so that a policy that has collapsed still has a finite loss


class Surrogate(NamedTuple):
    """All `[T, B]`; only `objective` and `ratios` have a gradient."""

    objective: torch.Tensor  # min(r_t·A_t, clip(r_t, 1 − ε, 1 + ε)·A_t), 0 outside the mask
    ratios: torch.Tensor  # r_t, 1 outside the mask
    clipped: torch.Tensor  # bool: the states under the mask whose objective has no gradient


def surrogate(
    log_policy: torch.Tensor,
    log_target: torch.Tensor,
    log_behaviour: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    rho: float,
    epsilon: float,
) -> Surrogate:
    """The objective of each state, from log π(a_t), log π_target(a_t), log μ(a_t) and A_t, all `[T, B]`.

    r_t = min(μ / π_target, ρ) · π / μ is the ratio to the target policy, as long as that has not become much less
    likely to act like this than the policy that did. A_t must contain the weight π_target / μ, as V-trace's does.
    """
    for name, tensor in (("log_target", log_target), ("log_behaviour", log_behaviour), ("advantages", advantages)):
        if tensor.shape != log_policy.shape or tensor.dim() != 2:
            raise ValueError(f"{name} must be [T, B] like log_policy {tuple(log_policy.shape)}")
    weight = (log_behaviour - log_target).clamp(max=math.log(rho)) - log_behaviour
    log_ratios = torch.where(mask, log_policy + torch.where(mask, weight.detach(), 0.0), 0.0)
    ratios = log_ratios.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
    counted = torch.where(mask, advantages.detach(), 0.0)
    whole, bounded = ratios * counted, ratios.clamp(1 - epsilon, 1 + epsilon) * counted
    return Surrogate(torch.minimum(whole, bounded), ratios, bounded < whole)


def clipped_policy_loss(
    distribution: PolicyDistribution,
    logits: torch.Tensor,
    target_logits: torch.Tensor,
    behaviour_logits: torch.Tensor,
    actions: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    rho: float,
    epsilon: float,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """−Σ of the objectives: logits `[T, B, P]`, `actions [T, B, ...]`, `advantages [T, B]` → scalar, and the figures.

    The figures are means over the states under the mask, NaN if there are none.
    """
    counted = where_counted(mask, actions)
    log_target = distribution.log_prob(target_logits, counted)
    log_behaviour = distribution.log_prob(behaviour_logits, counted)
    found = surrogate(distribution.log_prob(logits, counted), log_target, log_behaviour, advantages, mask, rho, epsilon)
    divergence = distribution.kl_divergence(target_logits, logits.detach())
    states = mask.sum()
    figures = {
        "clipped_share": found.clipped.sum() / states,
        "kl_target": torch.where(mask, divergence, 0.0).sum() / states,
        "ratio_target": torch.where(mask, found.ratios.detach(), 0.0).sum() / states,
    }
    return -found.objective.sum(), figures
