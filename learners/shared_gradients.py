"""Gradients that are means over all learners, also of an update that found no memory half-way."""

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
        self._expected = False  # DDP has seen a forward pass, and sends the gradients of the next backward pass
        self._begun = False  # this backward pass has begun

    def __call__(self, inputs: NetworkInput, last_is_bootstrap: bool = False) -> NetworkOutput:
        output: NetworkOutput = self._passes(inputs, last_is_bootstrap)
        self._expected = True
        return output

    def backward(self, loss: torch.Tensor) -> None:
        clear_gradients(self._parameters)
        self._send(loss)

    def take(self, gradients: Gradients) -> None:
        if not self._begun:
            clear_gradients(self._parameters)
        # A backward pass without memory for its end has given some parameters their gradient. These are gradients of
        # the whole batch and may be sent already, so only the others are still to come.
        pairs = zip(self._parameters, gradients, strict=True)
        given = [(weights, gradient) for weights, gradient in pairs if gradient is not None and weights.grad is None]
        loss = handed_over(given) if self._expected else self._passes(given=given)
        self._expected = True
        self._send(loss)

    def _send(self, loss: torch.Tensor) -> None:
        self._begun = True
        torch.autograd.backward(loss)
        self._expected = self._begun = False


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
