"""Gradients that are means over all learners."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from agents.gradients import Gradients, clear_gradients, trained_parameters
from agents.network import ActorCritic, NetworkInput, NetworkOutput

# The dense layer after the convolutions, most of the default network, has a bucket of its own: its gradient is on its
# way to the other learners while those of the convolutions are computed.
BUCKET_MEGABYTES = 1.0

Given = Sequence[tuple[torch.nn.Parameter, torch.Tensor]]  # parameters with their gradients


class SharedGradients:
    """A network on DistributedDataParallel (DDP).

    DDP sends the gradients of a backward pass in groups, each as soon as it is complete. In an update, each learner has
    to send each group exactly once: the others wait for it, and do not know how this learner computes its gradients.
    """

    def __init__(self, network: ActorCritic, group: dist.ProcessGroup | None) -> None:
        self._parameters = trained_parameters(network)
        self._passes = DistributedDataParallel(
            _Passes(network),
            process_group=group,
            forward_sync_buffers=False,  # all learners compute the same statistics
            bucket_cap_mb=BUCKET_MEGABYTES,
            # A torso of the user's own may have weights that no output depends on.
            find_unused_parameters=network.has_own_torso,
        )

    def __call__(self, inputs: NetworkInput, last_is_bootstrap: bool = False) -> NetworkOutput:
        output: NetworkOutput = self._passes(inputs, last_is_bootstrap)
        return output

    def backward(self, loss: torch.Tensor) -> None:
        clear_gradients(self._parameters)
        torch.autograd.backward(loss)

    def take(self, gradients: Gradients) -> None:
        pairs = zip(self._parameters, gradients, strict=True)
        self.backward(self._passes(given=[(weights, each) for weights, each in pairs if each is not None]))


class _Passes(torch.nn.Module):
    """The passes that DDP prepares for: the network's, or one that only hands over gradients."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, *arguments: Any, given: Given | None = None) -> Any:
        return self.network(*arguments) if given is None else handed_over(given)


def handed_over(given: Given) -> torch.Tensor:
    """A loss with these gradients, so that its backward pass sends them."""
    return torch.stack([(weights * gradient).sum() for weights, gradient in given]).sum()
