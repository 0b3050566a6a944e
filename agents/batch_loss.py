"""The loss of a batch: all terms with their weights, and the figures to report."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from agents import losses
from agents.diagnostics import diagnose
from agents.distributions.interface import PolicyDistribution
from agents.estimates import Estimates
from agents.impact import clipped_policy_loss
from agents.training_batch import TrainingBatch
from agents.vtrace import VTrace, trusted_states, vtrace
from option_flags import LossOptions


class _Judged(NamedTuple):
    """A batch with what is said about it."""

    unrolls: TrainingBatch
    output: Estimates  # of the present network
    estimated: Estimates  # those that V-trace corrects to
    trace: VTrace
    trusted: torch.Tensor  # [T, B] bool, the states that count


class BatchLoss:
    """A function of what the network says about a batch; it computes no network and keeps no state."""

    def __init__(
        self,
        options: LossOptions,
        distribution: PolicyDistribution,
        in_units: Callable[[torch.Tensor], torch.Tensor],
        entropy_weight: Callable[[], float | torch.Tensor],
        learners: int = 1,
    ) -> None:
        """`in_units` gives values, or differences of them, in the units of the value head.

        `entropy_weight` gives the present weight of the entropy bonus. `learners` make each update together, each from
        as many unrolls.
        """
        self._options = options
        self._distribution = distribution
        self._in_units = in_units
        self._entropy_weight = entropy_weight
        self._learners = learners
        self._impact = options.loss == "impact"

    def __call__(
        self, output: Estimates, estimated: Estimates, unrolls: TrainingBatch
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
        """The figures to report, without gradient, the total loss with its gradient, and the targets of the values.

        V-trace corrects to the policy and the values of `estimated`: the present ones, or those of IMPACT's target
        network. The total losses of the parts of a batch add up to that of the batch.
        """
        options, policy = self._options, self._distribution
        logits, values = output.logits[:-1], output.values[:-1]
        behaviour_logits, actions = unrolls.behaviour_logits, unrolls.actions

        log_behaviour = policy.log_prob(behaviour_logits, actions)
        log_ratios = (policy.log_prob(estimated.logits[:-1], actions) - log_behaviour).detach()
        # Steps without effect are no experience: like states that LASER leaves out, nothing is learned from them.
        trusted = torch.ones_like(values, dtype=torch.bool) if unrolls.valid is None else unrolls.valid
        if options.use_kl_mask:
            trusted = trusted & trusted_states(
                policy, estimated.logits[:-1], behaviour_logits, options.rho_const, options.kl_div_threshold
            )
        trace = vtrace(
            log_ratios=log_ratios,
            discounts=unrolls.discounts,
            rewards=unrolls.rewards,
            values=estimated.values[:-1].detach(),
            bootstrap_value=estimated.values[-1].detach(),
            rho_bar=options.rho_const,
            c_bar=options.c_const,
            trace_lambda=options.trace_lambda,
            trusted=trusted,
        )

        terms, figures = self._terms(_Judged(unrolls, output, estimated, trace, trusted))
        total = torch.stack(list(terms.values())).sum()
        report = {name: term.detach() for name, term in terms.items()} | {"total_loss": total.detach()} | figures
        ratios = trace.ratios
        if self._impact:
            ratios = (policy.log_prob(logits.detach(), actions) - log_behaviour).exp()
        report |= diagnose(policy, logits.detach(), behaviour_logits, values.detach(), ratios, trusted, unrolls.fresh)
        return report, total, trace.targets

    def _policy_loss(self, batch: _Judged) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The sum over the states, and further figures to report."""
        unrolls, output, estimated, trace, trusted = batch
        options, distribution = self._options, self._distribution
        logits, actions = output.logits[:-1], unrolls.actions
        if not self._impact:
            advantages = self._in_units(trace.advantages)
            return losses.policy_gradient_loss(distribution, logits, actions, advantages, trusted), {}
        return clipped_policy_loss(
            distribution,
            logits,
            estimated.logits[:-1],
            unrolls.behaviour_logits,
            actions,
            # GAE with the importance weights of V-trace.
            advantages=self._in_units(trace.targets - estimated.values[:-1]),
            mask=trusted,
            rho=options.impact_rho,
            epsilon=options.impact_epsilon,
        )

    def _terms(self, batch: _Judged) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Each term of the loss, weighted and reduced; 0 for a term that is disabled or has no states.

        The second part are further figures of the policy loss.
        """
        unrolls, output, estimated, trace, trusted = batch
        options, distribution, in_units = self._options, self._distribution, self._in_units
        logits, values = output.logits[:-1], in_units(output.values[:-1])
        # Every term leaves out the states that are not trusted.
        fresh, replayed = unrolls.fresh & trusted, ~unrolls.fresh & trusted
        entropy_on = unrolls.entropy_on & trusted
        zero = values.new_zeros(())
        policy, figures = self._policy_loss(batch)
        terms = {
            "policy_loss": options.policy_gradient_loss_weight * policy,
            "value_loss": options.value_loss_weight * losses.value_loss(values, in_units(trace.targets), trusted),
            "entropy_loss": self._entropy_weight() * losses.entropy_loss(distribution, logits, entropy_on),
            "proximal_loss": zero,
            "policy_cloning_loss": zero,
            "value_cloning_loss": zero,
        }
        if options.proximal_loss_weight and unrolls.any_fresh:
            held_near = estimated.logits[:-1] if self._impact else unrolls.behaviour_logits
            proximal = losses.policy_cloning_loss(distribution, logits, held_near, fresh)
            terms["proximal_loss"] = options.proximal_loss_weight * proximal
        if options.use_policy_cloning_loss and unrolls.any_replayed:
            cloning = losses.policy_cloning_loss(distribution, logits, unrolls.behaviour_logits, replayed)
            terms["policy_cloning_loss"] = options.policy_cloning_loss_weight * cloning
        if options.use_value_cloning_loss and unrolls.any_replayed:
            cloning = losses.value_cloning_loss(values, in_units(unrolls.stored_values), replayed)
            terms["value_cloning_loss"] = options.value_cloning_loss_weight * cloning
        # Gradients are means over the learners, whose parts of the batch have the same size. Parts of one learner's
        # batch are divided by the states of all, so that they add up.
        scale = 1 / unrolls.states if options.loss_reduction == "mean" else float(self._learners)
        return {name: scale * term for name, term in terms.items()}, figures
