"""One update of the network by one batch of unrolls."""

import zlib
from collections.abc import Callable
from typing import Any

import torch

from agents.acting import flat_weights
from agents.batch_gradients import BatchGradients
from agents.batch_loss import BatchLoss
from agents.gradients import Peers, Record
from agents.heads import GaussianHead, PopArtValueHead
from agents.impact import TargetNetwork
from agents.network import ActorCritic
from agents.optimizer import ScheduledOptimizer
from agents.torsos.pictures import channels_last
from agents.training_batch import TrainingBatch, make_training_batch
from option_flags import LossOptions, OptimizerOptions
from replay.batch_mix import Batch
from replay.unroll_layout import UnrollLayout

# Statistics start as those over all updates, and become moving averages with this weight for a new update.
SMALLEST_WEIGHT = 0.001


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
        peers: Peers | None = None,  # the other learners of the run
        announce: Callable[[str], None] = lambda message: None,
        record: Record[Any] | None = None,  # records whole batches, as CUDA graphs
    ) -> None:
        self.network = channels_last(network.to(device))
        self._peers = peers or Peers()
        averaged = self._peers.averaging(self.network)
        self.updates = 0
        self.is_intact = True  # False if the GPU's memory was used up in the middle of a step
        self._background_updates = 0  # updates of another run that the background comes from
        self._layout = layout
        self._loss = loss
        self._options = optimizer
        self._announce = announce
        self.device = device
        # In the memory of the device, because a recorded update does not see what Python computes.
        self._entropy_weight = torch.zeros((), device=device)
        self._optimizer = ScheduledOptimizer(network, optimizer, schedule_updates)
        self._target = TargetNetwork(self.network, loss.batch_uses.slots) if loss.loss == "impact" else None
        self._gradients = BatchGradients(
            self.network,
            self._target,
            averaged,
            BatchLoss(
                loss,
                network.distribution,
                network.value_head.in_units,
                self._present_entropy_weight,
                self._peers.size,
            ),
            lambda part, whole: make_training_batch(part, layout, loss.gamma, device, whole),
            announce,
            record,
        )

    def close(self) -> None:
        """Free what is not memory. No update is possible after it."""
        if self._target is not None:
            self._target.close()

    @property
    def batch_parts(self) -> int:
        """In how many parts a batch is computed: 1 as long as the GPU has the memory for all of it."""
        return self._gradients.parts

    def update(self, batch: Batch) -> dict[str, torch.Tensor]:
        """One step of the optimizer. Returns the figures to report: scalars on the device, until the next update."""
        if self._loss.entropy_loss_end_weight is not None:
            self._entropy_weight.fill_(self.entropy_weight)
        unrolls, figures, targets = self._gradients.compute(batch)
        clip = self._options.gradient_clip_by_norm_threshold or float("inf")
        report = {
            **figures,
            "gradient_norm": torch.nn.utils.clip_grad_norm_(self.network.parameters(), clip),
            "learning_rate": torch.full((), self.learning_rate, device=self.device),
        }
        try:
            self._step(unrolls, targets)
        except torch.OutOfMemoryError:
            # Some weights or statistics may have been changed and others not. Smaller parts would not help: the memory
            # of the batch is free already, and a step takes as much as the network has weights.
            self.is_intact = False
            raise
        return report

    def _step(self, unrolls: TrainingBatch, targets: torch.Tensor) -> None:
        """Change the weights by their gradients, and the statistics by the batch and the targets of its values."""
        self._optimizer.step(self.updates)
        if isinstance(self.network.policy_head, GaussianHead):
            self.network.policy_head.keep_in_range()
        self.updates += 1
        share = 1 / (self._background_updates + self.updates)  # of this update among all
        weight = max(share, SMALLEST_WEIGHT)
        if isinstance(self.network.value_head, PopArtValueHead):
            self.network.value_head.follow(self._peers.rows_of_all(targets), weight)
        # The first state of each unroll is enough for the mean over the run.
        self.network.update_background_mean(self._peers.rows_of_all(unrolls.inputs.observations[0]), weight)
        if unrolls.inputs.vectors is not None:
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

    def _present_entropy_weight(self) -> float | torch.Tensor:
        """A constant, or a tensor that changes with the schedule."""
        return self.entropy_weight if self._loss.entropy_loss_end_weight is None else self._entropy_weight

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
        """Resume from a saved state, with this learner's own options."""
        self.updates = state["updates"]
        self._background_updates = state.get("background_updates", 0)  # older versions did not save it
        self.network.load_saved(state["network"])
        if self._target is not None:  # saved by a run with IMPACT only
            self._target.load_saved(state.get("target", state["network"]))
        if not self._optimizer.load_state_dict(state["optimizer"]):
            self._announce("the optimizer's moving averages begin anew: it is another one than the parent's")
