"""One update of the network from one batch of unrolls."""

import math
from typing import Any, NamedTuple

import torch

from agents import losses
from agents.distribution import entropy, kl_divergence, log_prob
from agents.network import ActorCritic, NetworkInput, NetworkOutput
from agents.vtrace import VTrace, trusted_states, vtrace
from option_flags import LossOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout, rebuild_stacks

SLOWEST_BACKGROUND = 0.001  # part of it that an update replaces; the mean over all, as long as these are few


class Unrolls(NamedTuple):
    """A batch as the mathematics wants it: `[T, B, …]`, time first, where nothing else is said."""

    inputs: NetworkInput  # of T+1 steps
    actions: torch.Tensor
    rewards: torch.Tensor  # with the bootstrap of a time limit added in
    discounts: torch.Tensor
    behaviour_logits: torch.Tensor
    stored_values: torch.Tensor
    fresh: torch.Tensor  # [B] bool
    any_fresh: bool
    any_replayed: bool
    entropy_on: torch.Tensor  # [B] bool: the fresh ones, where there are any


class Learner:
    """Network, optimizer and learning-rate schedule on one device; `update` is the only thing that changes them."""

    def __init__(
        self,
        network: ActorCritic,
        layout: UnrollLayout,
        loss: LossOptions,
        optimizer: OptimizerOptions,
        schedule_updates: int,
        device: torch.device,
    ) -> None:
        self.network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.updates = 0
        self._layout = layout
        self._loss = loss
        self._options = optimizer
        self._schedule_updates = schedule_updates
        self.device = device
        self._optimizer = make_optimizer(network, optimizer)

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Learn from one batch; return what there is to report, as scalars that may still be on the device."""
        unrolls = self._prepare(batch)
        report, total = self._losses(unrolls)
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(total)
        clip = self._options.gradient_clip_by_norm_threshold or float("inf")
        report["gradient_norm"] = torch.nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate * self._start_correction()
        report["learning_rate"] = torch.full((), self.learning_rate, device=self.device)
        self._optimizer.step()
        self.updates += 1
        # The background follows what is seen; in time, the first states of the unrolls say enough of it.
        self.network.watch(unrolls.inputs.observations[0], max(1 / self.updates, SLOWEST_BACKGROUND))
        return report

    @property
    def learning_rate(self) -> float:
        """Polynomial decay from `--lr` to `--lr_end_value` over the schedule, constant after it.

        It is approached in a straight line: in a game that rewards from the first step on, the first updates all push
        the same way, and at full length they take values and policy far past what they aim at.
        """
        left = max(0.0, 1.0 - self.updates / self._schedule_updates)
        start, end = self._options.lr, self._options.lr_end_value
        warmup = min(self._options.lr_warmup_updates, self._schedule_updates // 10)
        warm = min(1.0, (self.updates + 1) / max(1, warmup))
        return float(warm * (end + (start - end) * left**self._options.lr_power))

    def _start_correction(self) -> float:
        """RMSProp's mean square starts at 0, which would make its first steps ten times as long, enough to end most
        features for good; with the rate scaled by the root of what it lacks, it is a mean from the first step on.
        """
        if self._options.optimizer == "adam":
            return 1.0
        first = next(self.network.parameters())
        steps = float(self._optimizer.state[first].get("step", 0)) + 1
        return math.sqrt(1 - self._options.rmsprop_alpha**steps)

    def is_finite(self) -> bool:
        """Whether all weights are numbers; a GPU is waited for."""
        return all(bool(torch.isfinite(weights).all()) for weights in self.network.parameters())

    def state_dict(self) -> dict[str, Any]:
        return {
            "updates": self.updates,
            "network": {name: tensor.cpu() for name, tensor in self.network.state_dict().items()},
            "optimizer": self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, under the options that this learner was made with."""
        self.updates = state["updates"]
        self.network.load_saved(state["network"])
        wanted, saved = self._optimizer.state_dict()["param_groups"][0], state["optimizer"]["param_groups"][0]
        if wanted.keys() != saved.keys() or (wanted.get("momentum") and not saved["momentum"]):
            return  # another --optimizer, or one that remembers more, begins afresh
        options = [{k: v for k, v in group.items() if k != "params"} for group in self._optimizer.param_groups]
        self._optimizer.load_state_dict(state["optimizer"])
        for group, own in zip(self._optimizer.param_groups, options, strict=True):
            group.update(own)

    def _prepare(self, batch: Batch) -> Unrolls:
        rows = batch.rows if batch.uploaded is None else batch.uploaded
        fields = self._layout.tensors(rows.to(self.device))
        dones = fields["dones"].bool()
        keep = (~dones).float()
        previous_actions = torch.where(dones, -1, fields["actions"])
        any_fresh = bool(batch.fresh.any())
        fresh = torch.from_numpy(batch.fresh).to(self.device, non_blocking=True)
        return Unrolls(
            inputs=NetworkInput(
                observations=rebuild_stacks(fields["frames"], dones),
                previous_actions=torch.cat([fields["first_action"].unsqueeze(1), previous_actions], 1).T,
                previous_rewards=torch.cat([fields["first_reward"].unsqueeze(1), fields["rewards"] * keep], 1).T,
                # What the worker stored for state 0 is right already, also where an episode starts there.
                starts=torch.cat([torch.zeros_like(dones[:, :1]), dones], 1).T,
                lstm_state=fields["first_lstm_state"],
            ),
            actions=fields["actions"].T,
            rewards=(fields["rewards"] + self._loss.gamma * fields["bootstraps"]).T,
            discounts=(self._loss.gamma * keep).T,
            behaviour_logits=fields["behaviour_logits"].transpose(0, 1),
            stored_values=fields["values"].T,
            fresh=fresh,
            any_fresh=any_fresh,
            any_replayed=not batch.fresh.all(),
            entropy_on=fresh if any_fresh else ~fresh,
        )

    def _losses(self, unrolls: Unrolls) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        options = self._loss
        output = self.network(unrolls.inputs, bootstraps=True)
        logits, values = output.logits[:-1], output.values[:-1]
        behaviour_logits, actions = unrolls.behaviour_logits, unrolls.actions

        log_ratios = (log_prob(logits, actions) - log_prob(behaviour_logits, actions)).detach()
        trusted = torch.ones_like(values, dtype=torch.bool)
        if options.use_kl_mask:
            trusted = trusted_states(logits, behaviour_logits, options.rho_const, options.kl_div_threshold)
        trace = vtrace(
            log_ratios=log_ratios,
            discounts=unrolls.discounts,
            rewards=unrolls.rewards,
            values=values.detach(),
            bootstrap_value=output.values[-1].detach(),
            rho_bar=options.rho_const,
            c_bar=options.c_const,
            trace_lambda=options.trace_lambda,
            trusted=trusted,
        )

        terms = self._terms(output, unrolls, trace, trusted)
        total = torch.stack(list(terms.values())).sum()
        report = {name: term.detach() for name, term in terms.items()} | {"total_loss": total.detach()}
        report |= diagnose(logits.detach(), behaviour_logits, values.detach(), trace, trusted, unrolls.fresh)
        return report, total

    def _terms(
        self, output: NetworkOutput, unrolls: Unrolls, trace: VTrace, trusted: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Each term of the loss, weighted and reduced; a term that is switched off, or has no states, is 0."""
        options = self._loss
        logits, values = output.logits[:-1], output.values[:-1]
        fresh = unrolls.fresh.expand_as(values)
        entropy_on = unrolls.entropy_on.expand_as(values)
        zero = values.new_zeros(())
        policy = losses.policy_gradient_loss(logits, unrolls.actions, trace.advantages, trusted)
        terms = {
            "policy_loss": options.policy_gradient_loss_weight * policy,
            "value_loss": options.value_loss_weight * losses.value_loss(values, trace.targets, trusted),
            "entropy_loss": options.entropy_loss_weight * losses.entropy_loss(logits, entropy_on),
            "proximal_loss": zero,
            "policy_cloning_loss": zero,
            "value_cloning_loss": zero,
        }
        if options.proximal_loss_weight and unrolls.any_fresh:
            proximal = losses.policy_cloning_loss(logits, unrolls.behaviour_logits, fresh)
            terms["proximal_loss"] = options.proximal_loss_weight * proximal
        if options.use_policy_cloning_loss and unrolls.any_replayed:
            cloning = losses.policy_cloning_loss(logits, unrolls.behaviour_logits, ~fresh)
            terms["policy_cloning_loss"] = options.policy_cloning_loss_weight * cloning
        if options.use_value_cloning_loss and unrolls.any_replayed:
            cloning = losses.value_cloning_loss(values, unrolls.stored_values, ~fresh)
            terms["value_cloning_loss"] = options.value_cloning_loss_weight * cloning
        scale = 1 / values.numel() if options.loss_reduction == "mean" else 1.0
        return {name: scale * term for name, term in terms.items()}


def make_optimizer(network: torch.nn.Module, options: OptimizerOptions) -> torch.optim.Optimizer:
    parameters = list(network.parameters())
    if options.optimizer == "adam":
        betas = (options.adam_beta1, options.adam_beta2)
        return torch.optim.Adam(parameters, options.lr, betas, options.adam_eps, fused=True)
    return torch.optim.RMSprop(
        parameters, options.lr, options.rmsprop_alpha, options.rmsprop_eps, momentum=options.rmsprop_momentum
    )


@torch.no_grad()
def diagnose(
    logits: torch.Tensor,
    behaviour_logits: torch.Tensor,
    values: torch.Tensor,
    trace: VTrace,
    trusted: torch.Tensor,
    fresh: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """What tells a healthy update from a sick one; figures of a kind of sample that is not there are NaN."""
    divergence = kl_divergence(behaviour_logits, logits)
    fresh = fresh.expand_as(values)
    return {
        "entropy": entropy(logits).mean(),
        # How far the policy differs between states: near 0, it ignores what it sees.
        "policy_spread": torch.softmax(logits, -1).flatten(0, 1).std(0, correction=0).mean(),
        "value_mean": values.mean(),
        "dropped_fresh": mean_where(fresh, (~trusted).float()),
        "dropped_replayed": mean_where(~fresh, (~trusted).float()),
        "kl_fresh": mean_where(fresh, divergence),
        "kl_replayed": mean_where(~fresh, divergence),
        "ratio_fresh": mean_where(fresh, trace.ratios),
        "ratio_replayed": mean_where(~fresh, trace.ratios),
    }


def mean_where(mask: torch.Tensor, figures: torch.Tensor) -> torch.Tensor:
    """The mean of those that the mask picks, NaN if none; no indexing, for which a GPU would have to be waited for."""
    return torch.where(mask, figures, 0.0).sum() / mask.sum()
