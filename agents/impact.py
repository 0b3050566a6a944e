"""IMPACT (Luo et al. 2019, arXiv 1912.00167): a clipped surrogate objective around a target policy.

The target network is an earlier copy of the network. V-trace estimates the values of its policy, with its values, so
targets and advantages of a state stay the same until the next copy, as those of PPO do within one iteration.
"""

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from copy import deepcopy
from typing import Any, NamedTuple

import torch

from agents.losses import Corrected, Judged, Term, mean_where, policy_cloning_loss, where_counted
from agents.network import ActorCritic, NetworkOutput
from agents.training_batch import TrainingBatch
from machine.capacity import usable_cores
from replay.mix import Batch

RHO = 2.0  # ρ, the upper bound of the ratio of the acting policy to the target policy, as in the paper
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


def impact_terms(epsilon: float) -> dict[str, Term]:
    """The terms of the loss that IMPACT has in place of those of V-trace."""

    def policy_loss(batch: Judged, mask: torch.Tensor) -> torch.Tensor:
        """−Σ of the objectives. The figures are means over the states under the mask, NaN if there are none."""
        actions, target_logits = where_counted(mask, batch.unrolls.actions), batch.reference.logits[:-1]
        found = surrogate(
            batch.policy.log_prob(batch.logits, actions),
            batch.log_reference,
            batch.log_behaviour,
            # GAE with the importance weights of V-trace.
            batch.in_units(batch.trace.targets - batch.reference.values[:-1]),
            mask,
            RHO,
            epsilon,
        )
        divergence = batch.policy.kl_divergence(target_logits, batch.logits.detach())
        batch.figures["clipped_share"] = found.clipped.sum() / mask.sum()
        batch.figures["kl_target"] = mean_where(mask, divergence)
        batch.figures["ratio_target"] = mean_where(mask, found.ratios.detach())
        return -found.objective.sum()

    def proximal_loss(batch: Judged, mask: torch.Tensor) -> torch.Tensor:
        return policy_cloning_loss(batch.policy, batch.logits, batch.reference.logits[:-1], mask)

    return {"policy_loss": Term(policy_loss, "decided"), "proximal_loss": Term(proximal_loss, "fresh")}


# What a network says about a batch, and what V-trace corrects to.
Estimates = Callable[[ActorCritic, TrainingBatch], tuple[NetworkOutput, NetworkOutput]]


class TargetNetwork:
    """A copy of the network, without gradients.

    Until it is renewed, it says the same about a batch that is used again, and V-trace makes the same of it. So this is
    kept for as many batches as the circular queue holds.
    """

    def __init__(self, network: ActorCritic, kept_batches: int) -> None:
        """A batch that is used again is the one of `kept_batches` updates ago."""
        self.network = deepcopy(network).requires_grad_(False)
        if self.network.lstm is not None:
            self.network.lstm.flatten_parameters()  # on a GPU, the copied weights are no longer one block of memory
        self._kept: deque[Corrected] = deque(maxlen=kept_batches)
        # On a CPU, it computes at the same time as the network, on cores that are not the learner's. For vectors alone,
        # two threads are slower than one: an update takes only some milliseconds.
        self._thread: ThreadPoolExecutor | None = None  # ends with this object
        sees_pictures = network.background.numel() > 0
        has_cores = network.background.device.type == "cpu" and 2 * torch.get_num_threads() <= usable_cores()
        if sees_pictures and has_cores:
            self._thread = ThreadPoolExecutor(1, "target-network", _set_up_thread)

    def renew(self, weights: dict[str, Any]) -> None:
        """Become a copy of the network with these weights."""
        self.network.load_state_dict(weights)
        self._kept.clear()

    def load_saved(self, weights: dict[str, Any]) -> None:
        """Like `renew`, with the weights of a checkpoint."""
        self.network.load_saved(weights)
        self._kept.clear()

    def kept(self, batch: Batch) -> Corrected | None:
        """What was kept of a batch. To be called for every batch, in order; `keep` follows if it returns None."""
        if batch.is_used_again and len(self._kept) == self._kept.maxlen:
            self._kept.rotate(-1)
            return self._kept[-1]
        return None

    def keep(self, corrected: Corrected) -> None:
        self._kept.append(corrected)

    def estimates(self, network: ActorCritic, unrolls: TrainingBatch) -> tuple[NetworkOutput, NetworkOutput]:
        """What `network` says about a batch, and what this one says."""
        if self._thread is None:
            own = self._own(unrolls)
            return _pass(network, unrolls), own
        later = self._thread.submit(self._own, unrolls)
        try:
            return _pass(network, unrolls), later.result()
        finally:
            wait([later])  # after an error, nothing goes on

    def _own(self, unrolls: TrainingBatch) -> NetworkOutput:
        with torch.no_grad():
            return _pass(self.network, unrolls)


def _pass(network: ActorCritic, unrolls: TrainingBatch) -> NetworkOutput:
    output: NetworkOutput = network(unrolls.inputs, last_is_bootstrap=True)
    return output


def _set_up_thread() -> None:
    """The settings that torch keeps for each thread."""
    torch.set_flush_denormal(True)
    torch.get_num_threads()  # takes over the number of the process; until then, a thread computes with all cores
    torch.autocast_increment_nesting()  # otherwise each end of autocast here empties the cache of the other thread
