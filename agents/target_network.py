"""The target network of IMPACT: the network as it was some updates ago."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from copy import deepcopy
from typing import Any

import torch

from agents.estimates import Estimates, estimates_of
from agents.network import ActorCritic
from agents.training_batch import TrainingBatch
from machine.capacity import usable_cores


class TargetNetwork:
    """A copy of the network, without gradients.

    Until it is renewed, it says the same about a batch that is used again. So its estimates of as many batches are kept
    as the circular queue holds.
    """

    def __init__(self, network: ActorCritic, kept_batches: int) -> None:
        """A batch that is used again is the one of `kept_batches` updates ago."""
        self.network = deepcopy(network).requires_grad_(False)
        if self.network.lstm is not None:
            self.network.lstm.flatten_parameters()  # on a GPU, the copied weights are no longer one block of memory
        self._kept: deque[Estimates] = deque(maxlen=kept_batches)
        # On a CPU, it computes at the same time as the network, on cores that are not the learner's. For vectors alone,
        # two threads are slower than one: an update takes only some milliseconds.
        self._thread: ThreadPoolExecutor | None = None
        sees_pictures = network.background.numel() > 0
        has_cores = network.background.device.type == "cpu" and 2 * torch.get_num_threads() <= usable_cores()
        if sees_pictures and has_cores:
            self._thread = ThreadPoolExecutor(1, "target-network", _set_up_thread)

    def close(self) -> None:
        """End the thread, if there is one."""
        if self._thread is not None:
            self._thread.shutdown()

    def renew(self, weights: dict[str, Any]) -> None:
        """Become a copy of the network with these weights."""
        self.network.load_state_dict(weights)
        self._kept.clear()

    def load_saved(self, weights: dict[str, Any]) -> None:
        """Like `renew`, with the weights of a checkpoint."""
        self.network.load_saved(weights)
        self._kept.clear()

    def of_batch(
        self, unrolls: TrainingBatch, is_used_again: bool, meanwhile: Callable[[], Estimates]
    ) -> tuple[Estimates, Estimates]:
        """What `meanwhile` returns, and the estimates of a batch. To be called for every batch, in order."""
        if is_used_again and len(self._kept) == self._kept.maxlen:
            result, estimates = meanwhile(), self._kept[0]
        else:
            result, estimates = self._compute(unrolls, meanwhile)
        self._kept.append(estimates)
        return result, estimates

    def of_part(self, unrolls: TrainingBatch, meanwhile: Callable[[], Estimates]) -> tuple[Estimates, Estimates]:
        """Like `of_batch`, for a part of a batch, of which nothing is kept."""
        self._kept.clear()
        return self._compute(unrolls, meanwhile)

    def _compute(self, unrolls: TrainingBatch, meanwhile: Callable[[], Estimates]) -> tuple[Estimates, Estimates]:
        if self._thread is None:
            estimates = self._estimates(unrolls)
            return meanwhile(), estimates
        later = self._thread.submit(self._estimates, unrolls)
        try:
            return meanwhile(), later.result()
        finally:  # after an error, nothing goes on, and nothing refers to the tensors of the batch
            wait([later])
            del later

    def _estimates(self, unrolls: TrainingBatch) -> Estimates:
        with torch.no_grad():
            return estimates_of(self.network, unrolls)


def _set_up_thread() -> None:
    """The settings that torch keeps for each thread."""
    torch.set_flush_denormal(True)
    torch.get_num_threads()  # takes over the number of the process; until then, a thread computes with all cores
    torch.autocast_increment_nesting()  # otherwise each end of autocast here empties the cache of the other thread
