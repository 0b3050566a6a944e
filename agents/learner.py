"""The learner: updates of the network, each by one batch of unrolls."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from agents.acting import flat_weights
from agents.gradients import Gradients, GradientsApart, Peers, Record, RecordedBatches, TrainedNetwork
from agents.heads import GaussianHead
from agents.impact import Estimates, TargetNetwork, impact_terms
from agents.losses import TERMS, Corrected, Judged, figures_of, weighted_terms
from agents.network import ActorCritic, NetworkOutput
from agents.optimizer import ScheduledOptimizer
from agents.torsos.pictures import channels_last
from agents.training_batch import TrainingBatch, make_training_batch
from agents.vtrace import vtrace
from option_flags import LossOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout

# Statistics start as those over all updates, and become moving averages with this weight for a new update.
SMALLEST_WEIGHT = 0.001


class Computed(NamedTuple):
    """What remains of a batch when its gradients are computed."""

    unrolls: TrainingBatch
    targets: torch.Tensor  # [T, B], of the values
    figures: dict[str, torch.Tensor]  # to report


class Learner:
    """Network and optimizer on one device; only `update` and `load_state_dict` change them."""

    def __init__(
        self,
        network: ActorCritic,
        layout: UnrollLayout,
        loss: LossOptions,
        optimizer: OptimizerOptions,
        schedule_updates: int,
        device: torch.device,
    ) -> None:
        self.network = channels_last(network.to(device))
        self.device = device
        self.updates = 0
        self._background_updates = 0  # updates of another run that the background comes from
        self._layout = layout
        self._loss = loss
        self._options = optimizer
        self._optimizer = ScheduledOptimizer(network, optimizer, schedule_updates)
        # In the memory of the device, because a recorded update does not see what Python computes.
        self._entropy_weight = torch.zeros((), device=device)
        self._weights: dict[str, float | torch.Tensor] = {**loss.term_weights, "entropy_loss": self._entropy_weight}
        self._terms = TERMS
        self._estimates: Estimates = estimates_of_one
        self._target: TargetNetwork | None = None
        if loss.loss == "impact":
            self._terms = {**TERMS, **impact_terms(loss.impact_epsilon)}
            self._target = TargetNetwork(self.network, loss.batch_uses.slots)
            self._estimates = self._target.estimates
        self._keeper = self._target  # of what IMPACT made of a batch, for when it is used again
        self._peers = Peers()
        self._averaged = self._peers.averaging(network)
        self._compute: Callable[[Batch], Computed] = lambda batch: self._computed(self._averaged, batch)

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """One step of the optimizer. Returns the figures to report: scalars on the device, until the next update."""
        self._entropy_weight.fill_(self.entropy_weight)
        unrolls, targets, figures = self._compute(batch)  # by `gradients`
        clip = self._options.gradient_clip_by_norm_threshold or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        rate = torch.full((), self.learning_rate, device=self.device)
        self._optimizer.step(self.updates)
        self.updates += 1
        self._follow(unrolls, targets)
        return {**figures, "gradient_norm": norm, "learning_rate": rate}

    def gradients(self, trained: TrainedNetwork, batch: Batch) -> tuple[Judged, dict[str, torch.Tensor]]:
        """Forward pass, V-trace, terms of the loss and backward pass of a batch, and nothing else.

        A CUDA graph may repeat it: so nothing here may wait for the device, and no shape may depend on data.
        """
        loss, policy = self._loss, self.network.distribution
        corrected = self._keeper.kept(batch) if self._keeper else None  # if IMPACT uses the batch again
        if corrected is None:
            unrolls = make_training_batch(batch, self._layout, loss.gamma, self.device, copies=bool(self._keeper))
            # What the network says, and what the network says that V-trace corrects to: the same one.
            output, reference = self._estimates(self.network, unrolls)
            corrected = self._corrected(unrolls, reference)
            if self._keeper:
                self._keeper.keep(corrected)
        else:
            output, _ = estimates_of_one(self.network, corrected.unrolls)
        in_units = self.network.value_head.in_units
        judged = Judged(**vars(corrected), policy=policy, output=output, in_units=in_units)
        # Gradients are means over the learners, whose parts of the batch have the same size.
        scale = 1 / judged.trusted.numel() if loss.loss_reduction == "mean" else float(self._peers.size)
        terms = weighted_terms(judged, self._terms, self._weights, scale)
        total = torch.stack(list(terms.values())).sum()
        trained.backward(total)
        return judged, {**terms, "total_loss": total}

    def _corrected(self, unrolls: TrainingBatch, reference: NetworkOutput) -> Corrected:
        """V-trace of a batch, from what a network says about it."""
        loss, policy, actions = self._loss, self.network.distribution, unrolls.actions
        log_behaviour = policy.log_prob(unrolls.behaviour_logits, actions)
        log_reference = policy.log_prob(reference.logits[:-1].detach(), actions)
        log_ratios = log_reference - log_behaviour
        if unrolls.held is not None:  # what happens there is the game's doing, and not corrected
            log_ratios = log_ratios.masked_fill(unrolls.held, 0.0)
        # Steps without effect are no experience: like states that LASER leaves out, nothing is learned from them.
        trusted = unrolls.valid
        if loss.use_kl_mask:
            divergence = policy.implied_divergence(reference.logits[:-1], unrolls.behaviour_logits, loss.rho_const)
            trusted = trusted & (divergence < loss.kl_div_threshold)
        trace = vtrace(
            log_ratios=log_ratios,
            discounts=unrolls.discounts,
            rewards=unrolls.rewards,
            values=reference.values[:-1].detach(),
            bootstrap_value=reference.values[-1].detach(),
            rho_bar=loss.rho_const,
            c_bar=loss.c_const,
            trace_lambda=loss.trace_lambda,
            trusted=trusted,
        )
        return Corrected(unrolls, reference, log_reference, log_behaviour, trusted, trace)

    def _computed(self, trained: TrainedNetwork, batch: Batch) -> Computed:
        judged, terms = self.gradients(trained, batch)
        return Computed(judged.unrolls, judged.trace.targets, figures_of(judged, terms))

    def join(self, peers: Peers) -> None:
        """Make each update together with the other learners of the run; before the first update."""
        self._peers, self._averaged = peers, peers.averaging(self.network)
        if self._target is not None:
            self._target.renew(self.network.state_dict())  # all learners have the weights of the first one now

    def record(self, record: Record[Any], announce: Callable[[str], None]) -> None:
        """From now on, gradients are computed by CUDA graphs, where recording them is possible.

        A graph computes IMPACT's target network each time: what Python keeps of a batch, it does not see.
        """
        self._keeper = None
        apart = GradientsApart(self.network)
        recorded: RecordedBatches[tuple[Computed, Gradients]] = RecordedBatches(
            lambda batch: (self._computed(apart, batch), apart.gradients), record, self.device, announce
        )

        def compute(batch: Batch) -> Computed:
            computed, gradients = recorded(batch)
            self._averaged.take(gradients)
            return computed

        self._compute = compute

    def _follow(self, unrolls: TrainingBatch, targets: torch.Tensor) -> None:
        """After a step: the statistics of the network follow the batch and the targets of its values."""
        if isinstance(self.network.policy_head, GaussianHead):
            self.network.policy_head.keep_in_range()
        share = 1 / (self._background_updates + self.updates)  # of this update among all
        weight = max(share, SMALLEST_WEIGHT)
        if self.network.value_head.unit is not None:  # PopArt
            self.network.value_head.follow(self._peers.rows_of_all(targets), weight)
        # The first state of each unroll is enough for the mean over the run.
        self.network.update_background_mean(self._peers.rows_of_all(unrolls.inputs.observations[0]), weight)
        if unrolls.inputs.vectors is not None and self.network.vector_mean is not None:
            self._follow_vectors(self._peers.rows_of_all(unrolls.inputs.vectors.flatten(0, 1)), share)
        if self._target is not None and self.updates % self._loss.target_period == 0:
            self._target.renew(self.network.state_dict())

    def _follow_vectors(self, vectors: torch.Tensor, share: float) -> None:
        """Update their statistics.

        The first ones bring the inputs to the size that the first weights are made for. Later ones must not change
        what the network says: about states that the batch does not have, it could not learn that again. The first
        layer of a user's torso is not known, so that it cannot follow; there the averages slow down with the learning
        rate, but only in the second half: where they did so from the start, HalfCheetah kept a poor gait.
        """
        if self.network.has_own_torso:
            smallest, keep_function = SMALLEST_WEIGHT * min(1.0, 2 * self.learning_rate / self._options.lr), False
        else:
            smallest, keep_function = SMALLEST_WEIGHT, share < SMALLEST_WEIGHT
        self.network.update_vector_statistics(vectors, max(share, smallest), keep_function)

    def keep_background(self, updates: int) -> None:
        """Keep the background of loaded weights, which had so many updates. Otherwise it is measured anew."""
        self._background_updates = updates

    @property
    def learning_rate(self) -> float:
        """That of the next update."""
        return self._optimizer.learning_rate(self.updates)

    @property
    def entropy_weight(self) -> float:
        """Linear from `--entropy_loss_weight` to `--entropy_loss_end_weight` over the schedule, then constant."""
        start, end = self._loss.entropy_loss_weight, self._loss.entropy_loss_end_weight
        return start if end is None else end + (start - end) * self._optimizer.schedule_left(self.updates)

    def is_finite(self) -> bool:
        """Whether no weight is NaN or infinite. Waits for the GPU."""
        return bool(torch.stack([torch.isfinite(weights).all() for weights in self.network.parameters()]).all())

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
            state["target"] = {name: tensor.cpu() for name, tensor in self._target.network.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a saved state, with this learner's own options.

        The moving averages of another optimizer are left out.
        """
        self.updates = int(state["updates"])
        self._background_updates = int(state["background_updates"])
        self.network.load_saved(state["network"])
        if self._target is not None:  # saved by a run with IMPACT only
            self._target.load_saved(state.get("target", state["network"]))
        self._optimizer.load_state_dict(state["optimizer"])


def estimates_of_one(network: ActorCritic, unrolls: TrainingBatch) -> tuple[NetworkOutput, NetworkOutput]:
    """V-trace corrects to what the network itself says."""
    output = network(unrolls.inputs, last_is_bootstrap=True)
    return output, output
