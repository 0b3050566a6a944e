"""The terms of the loss: one function each, and the table of all of them.

Each is a sum over the states under `mask [T, B]`; targets get no gradient. Nothing outside the mask counts: a stored
number that is not finite there changes neither the loss nor its gradient.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import torch

from agents.distributions import PolicyDistribution
from agents.network import NetworkOutput
from agents.training_batch import TrainingBatch
from agents.vtrace import VTrace


@dataclass(frozen=True)
class Corrected:
    """T steps of B unrolls, and what V-trace makes of them; without gradients."""

    unrolls: TrainingBatch
    reference: NetworkOutput  # what V-trace corrects to, from the network itself or from IMPACT's target network
    log_reference: torch.Tensor  # [T, B], log π(a_t) of the reference
    log_behaviour: torch.Tensor  # [T, B], log μ(a_t) of the policy that acted
    trusted: torch.Tensor  # [T, B] bool, the states that count
    trace: VTrace


@dataclass(frozen=True)
class Judged(Corrected):
    """The same with what the network says: what the terms of the loss are made of."""

    policy: PolicyDistribution
    output: NetworkOutput  # of the network, with gradient
    in_units: Callable[[torch.Tensor], torch.Tensor]  # values, or differences of them, in the units of the value head
    figures: dict[str, torch.Tensor] = field(default_factory=dict)  # scalars that a term reports beside itself

    @cached_property
    def logits(self) -> torch.Tensor:
        """`[T, B, P]`, with gradient."""
        return self.output.logits[:-1]

    @cached_property
    def values(self) -> torch.Tensor:
        """`[T, B]` in units, with gradient."""
        return self.in_units(self.output.values[:-1])


class Term(NamedTuple):
    """One term of the loss."""

    sum: Callable[[Judged, torch.Tensor], torch.Tensor]  # over the states under a mask [T, B]
    # Which states of an update it is about; those that are not trusted are left out. "decided": without held actions.
    states: Literal["all", "decided", "entropy", "fresh", "replayed"]


# Their weights and names in reports are declared in options/learning_options.py, in this order.
TERMS: Mapping[str, Term] = {
    "policy_loss": Term(
        lambda batch, mask: policy_gradient_loss(
            batch.policy, batch.logits, batch.unrolls.actions, batch.in_units(batch.trace.advantages), mask
        ),
        "decided",
    ),
    "value_loss": Term(
        lambda batch, mask: value_loss(batch.values, batch.in_units(batch.trace.targets), mask),
        "all",
    ),
    "entropy_loss": Term(lambda batch, mask: entropy_loss(batch.policy, batch.logits, mask), "entropy"),
    "proximal_loss": Term(
        lambda batch, mask: policy_cloning_loss(batch.policy, batch.logits, batch.unrolls.behaviour_logits, mask),
        "fresh",
    ),
    "policy_cloning_loss": Term(
        lambda batch, mask: policy_cloning_loss(batch.policy, batch.logits, batch.unrolls.behaviour_logits, mask),
        "replayed",
    ),
    "value_cloning_loss": Term(
        lambda batch, mask: value_cloning_loss(batch.values, batch.in_units(batch.unrolls.stored_values), mask),
        "replayed",
    ),
}


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


def weighted_terms(
    batch: Judged, terms: Mapping[str, Term], weights: Mapping[str, float | torch.Tensor], scale: float
) -> dict[str, torch.Tensor]:
    """Each term of the loss, times its weight and `scale`; 0 for a term that is off, or that has no states."""
    unrolls, trusted = batch.unrolls, batch.trusted
    decided = trusted if unrolls.held is None else trusted & ~unrolls.held
    masks = {"all": trusted, "decided": decided, "entropy": unrolls.entropy_on & trusted}
    if unrolls.any_fresh:
        masks["fresh"] = unrolls.fresh & trusted
    if unrolls.any_replayed:
        masks["replayed"] = ~unrolls.fresh & trusted
    zero = batch.values.new_zeros(())
    return {
        name: scale * (weights[name] * term.sum(batch, masks[term.states]))
        if name in weights and term.states in masks
        else zero
        for name, term in terms.items()
    }


@torch.no_grad()
def figures_of(judged: Judged, terms: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Scalars of one update: the terms of the loss as they are summed, and what the batch says about learning.

    Figures of fresh unrolls are NaN if the batch has none; the same for replayed unrolls.
    """
    policy, unrolls, trusted = judged.policy, judged.unrolls, judged.trusted
    logits, values = judged.logits.detach(), judged.output.values[:-1].detach()
    ratios = judged.trace.ratios
    if judged.reference is not judged.output:  # the ratios are those of the target policy
        ratios = (policy.log_prob(logits, unrolls.actions) - judged.log_behaviour).exp()
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
        **({} if unrolls.held is None else {"held_share": unrolls.held.float().mean()}),
    }


def mean_where(mask: torch.Tensor, figures: torch.Tensor) -> torch.Tensor:
    """The mean of the figures under the mask, NaN if there are none. Indexing would have to wait for the GPU."""
    return torch.where(mask, figures, 0.0).sum() / mask.sum()
