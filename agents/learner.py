"""One update of the network by one batch of unrolls."""

import math
import zlib
from copy import deepcopy
from typing import Any

import torch

from agents import losses
from agents.diagnostics import diagnose
from agents.flat_weights import flat_weights
from agents.impact import clipped_policy_loss
from agents.network import ActorCritic, NetworkOutput
from agents.peers import NoPeers, Peers
from agents.training_batch import TrainingBatch, make_training_batch
from agents.vtrace import VTrace, trusted_states, vtrace
from option_flags import LossOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout

# The background starts as the mean over all updates, and becomes a moving average with this weight for a new update.
SMALLEST_BACKGROUND_WEIGHT = 0.001


class Learner:
    """Network, optimizer and learning-rate schedule on one device; only `update` and `load_state_dict` change them."""

    def __init__(
        self,
        network: ActorCritic,
        layout: UnrollLayout,
        loss: LossOptions,
        optimizer: OptimizerOptions,
        schedule_updates: int,
        device: torch.device,
        peers: Peers | None = None,  # the other learners of the run
    ) -> None:
        self.network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._peers = peers or NoPeers()
        self._forward = self._peers.averaging(self.network)
        self.updates = 0
        self._background_updates = 0  # updates of another run that the background comes from
        self._layout = layout
        self._loss = loss
        self._options = optimizer
        self._schedule_updates = schedule_updates
        self.device = device
        self._optimizer = make_optimizer(network, optimizer)
        # The target network of IMPACT: the network as it was some updates ago.
        self._target = deepcopy(self.network).requires_grad_(False) if loss.loss == "impact" else None

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """One step of the optimizer. Returns the figures to report, as scalars on the device."""
        unrolls = make_training_batch(batch, self._layout, self._loss.gamma, self.device)
        report, total, targets = self._losses(unrolls)
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(total)
        clip = self._options.gradient_clip_by_norm_threshold or float("inf")
        report["gradient_norm"] = torch.nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        self._set_step_size()
        report["learning_rate"] = torch.full((), self.learning_rate, device=self.device)
        self._optimizer.step()
        self.updates += 1
        weight = max(1 / (self._background_updates + self.updates), SMALLEST_BACKGROUND_WEIGHT)
        if self.network.value_head.unit is not None:
            self.network.value_head.follow(self._peers.rows_of_all(targets), weight)
        # The first state of each unroll is enough for the mean over the run.
        self.network.update_background_mean(self._peers.rows_of_all(unrolls.inputs.observations[0]), weight)
        if unrolls.inputs.vectors is not None:
            vectors = self._peers.rows_of_all(unrolls.inputs.vectors.flatten(0, 1))
            self.network.update_vector_statistics(vectors, weight)
        if self._target is not None and self.updates % self._loss.target_period == 0:
            self._target.load_state_dict(self.network.state_dict())
        return report

    def keep_background(self, updates: int) -> None:
        """Keep the background of loaded weights, which had so many updates. Otherwise it is measured anew."""
        self._background_updates = updates

    @property
    def learning_rate(self) -> float:
        """Linear warm-up, then polynomial decay from `--lr` to `--lr_end_value` over the schedule, then constant.

        The warm-up is for games with rewards from the first step on: there the first updates all point in the same
        direction, so that values and policy overshoot at the full rate.
        """
        left = max(0.0, 1.0 - self.updates / self._schedule_updates)
        start, end = self._options.lr, self._options.lr_end_value
        warmup = min(self._options.lr_warmup_updates, self._schedule_updates // 10)
        warm = min(1.0, (self.updates + 1) / max(1, warmup))
        return float(warm * (end + (start - end) * left**self._options.lr_power))

    def _set_step_size(self) -> None:
        """Set the learning rate of the next step; for RMSProp, with the bias correction of its mean square.

        The mean square starts at 0. Without the correction the first steps are ten times too long, which makes most
        features zero for good. Step t is to be lr · B_t, with B_t = momentum · B_{t−1} + c_t · gradient / root mean
        square and c_t = √(1 − α^t). PyTorch keeps B_t / c_t, so the ratio of two corrections goes into its momentum.
        """
        options = self._options
        correction, ratio = 1.0, 1.0
        if options.optimizer == "rmsprop":
            steps = float(next((state["step"] for state in self._optimizer.state.values()), 0))  # made so far
            correction = math.sqrt(1 - options.rmsprop_alpha ** (steps + 1))
            # The momentum of the first step multiplies 0, but it must not be 0: PyTorch would leave momentum out.
            ratio = math.sqrt(1 - options.rmsprop_alpha**steps) / correction if steps else 1.0
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate * correction
            if options.optimizer == "rmsprop":
                group["momentum"] = options.rmsprop_momentum * ratio

    def is_finite(self) -> bool:
        """Whether no weight is NaN or infinite. Waits for the GPU."""
        return all(bool(torch.isfinite(weights).all()) for weights in self.network.parameters())

    def weights_checksum(self) -> int:
        """A number that is the same for the same weights."""
        weights = flat_weights(self.network).cpu().numpy()
        return zlib.crc32(weights.tobytes())

    def state_dict(self) -> dict[str, Any]:
        state = {
            "updates": self.updates,
            "background_updates": self._background_updates,
            "network": {name: tensor.cpu() for name, tensor in self.network.state_dict().items()},
            "optimizer": self._optimizer.state_dict(),
        }
        if self._target is not None:
            state["target"] = {name: tensor.cpu() for name, tensor in self._target.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a saved state, with this learner's own options."""
        self.updates = state["updates"]
        self._background_updates = state.get("background_updates", 0)  # older versions did not save it
        self.network.load_saved(state["network"])
        if self._target is not None:  # saved by a run with IMPACT only
            self._target.load_saved(state.get("target", state["network"]))
        wanted, saved = self._optimizer.state_dict()["param_groups"][0], state["optimizer"]["param_groups"][0]
        if wanted.keys() != saved.keys() or (wanted.get("momentum") and not saved["momentum"]):
            return  # another --optimizer, or momentum that was not saved: the optimizer starts with a new state
        options = [{k: v for k, v in group.items() if k != "params"} for group in self._optimizer.param_groups]
        self._optimizer.load_state_dict(state["optimizer"])
        for group, own in zip(self._optimizer.param_groups, options, strict=True):
            group.update(own)

    def _losses(self, unrolls: TrainingBatch) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
        """The figures to report, without gradient, the total loss with its gradient, and the targets of the values."""
        options, policy = self._loss, self.network.distribution
        output = self._forward(unrolls.inputs, last_is_bootstrap=True)
        logits, values = output.logits[:-1], output.values[:-1]
        behaviour_logits, actions = unrolls.behaviour_logits, unrolls.actions
        # The policy and values that V-trace corrects to: the present ones, or those of IMPACT's target network.
        estimated = output if self._target is None else self._output_of_target(unrolls)

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

        terms, figures = self._terms(output, estimated, unrolls, trace, trusted)
        total = torch.stack(list(terms.values())).sum()
        report = {name: term.detach() for name, term in terms.items()} | {"total_loss": total.detach()} | figures
        ratios = trace.ratios
        if self._target is not None:
            ratios = (policy.log_prob(logits.detach(), actions) - log_behaviour).exp()
        report |= diagnose(policy, logits.detach(), behaviour_logits, values.detach(), ratios, trusted, unrolls.fresh)
        return report, total, trace.targets

    @torch.no_grad()
    def _output_of_target(self, unrolls: TrainingBatch) -> NetworkOutput:
        assert self._target is not None
        output: NetworkOutput = self._target(unrolls.inputs, last_is_bootstrap=True)
        return output

    def _policy_loss(
        self,
        output: NetworkOutput,
        estimated: NetworkOutput,
        unrolls: TrainingBatch,
        trace: VTrace,
        trusted: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The sum over the states, and further figures to report."""
        options, distribution = self._loss, self.network.distribution
        in_units = self.network.value_head.in_units
        logits, actions = output.logits[:-1], unrolls.actions
        if self._target is None:
            return losses.policy_gradient_loss(distribution, logits, actions, in_units(trace.advantages), trusted), {}
        return clipped_policy_loss(
            distribution,
            logits,
            estimated.logits[:-1],
            unrolls.behaviour_logits,
            actions,
            advantages=in_units(trace.targets - estimated.values[:-1]),  # GAE with the importance weights of V-trace
            mask=trusted,
            rho=options.impact_rho,
            epsilon=options.impact_epsilon,
        )

    def _terms(
        self,
        output: NetworkOutput,
        estimated: NetworkOutput,
        unrolls: TrainingBatch,
        trace: VTrace,
        trusted: torch.Tensor,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Each term of the loss, weighted and reduced; 0 for a term that is disabled or has no states.

        The second part are further figures of the policy loss.
        """
        options, distribution = self._loss, self.network.distribution
        in_units = self.network.value_head.in_units
        logits, values = output.logits[:-1], in_units(output.values[:-1])
        # Every term leaves out the states that are not trusted.
        fresh, replayed = unrolls.fresh & trusted, ~unrolls.fresh & trusted
        entropy_on = unrolls.entropy_on & trusted
        zero = values.new_zeros(())
        policy, figures = self._policy_loss(output, estimated, unrolls, trace, trusted)
        terms = {
            "policy_loss": options.policy_gradient_loss_weight * policy,
            "value_loss": options.value_loss_weight * losses.value_loss(values, in_units(trace.targets), trusted),
            "entropy_loss": options.entropy_loss_weight * losses.entropy_loss(distribution, logits, entropy_on),
            "proximal_loss": zero,
            "policy_cloning_loss": zero,
            "value_cloning_loss": zero,
        }
        if options.proximal_loss_weight and unrolls.any_fresh:
            held_near = unrolls.behaviour_logits if self._target is None else estimated.logits[:-1]
            proximal = losses.policy_cloning_loss(distribution, logits, held_near, fresh)
            terms["proximal_loss"] = options.proximal_loss_weight * proximal
        if options.use_policy_cloning_loss and unrolls.any_replayed:
            cloning = losses.policy_cloning_loss(distribution, logits, unrolls.behaviour_logits, replayed)
            terms["policy_cloning_loss"] = options.policy_cloning_loss_weight * cloning
        if options.use_value_cloning_loss and unrolls.any_replayed:
            cloning = losses.value_cloning_loss(values, in_units(unrolls.stored_values), replayed)
            terms["value_cloning_loss"] = options.value_cloning_loss_weight * cloning
        # Gradients are means over the learners, whose parts of the batch have the same size.
        scale = 1 / values.numel() if options.loss_reduction == "mean" else float(self._peers.size)
        return {name: scale * term for name, term in terms.items()}, figures


def make_optimizer(network: torch.nn.Module, options: OptimizerOptions) -> torch.optim.Optimizer:
    """The optimizer of `--optimizer` for all parameters of the network."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if options.optimizer == "adam":
        betas = (options.adam_beta1, options.adam_beta2)
        return torch.optim.Adam(parameters, options.lr, betas, options.adam_eps, fused=True)
    return torch.optim.RMSprop(
        parameters, options.lr, options.rmsprop_alpha, options.rmsprop_eps, momentum=options.rmsprop_momentum
    )
