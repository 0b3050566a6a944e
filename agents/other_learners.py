"""What an update needs of the other learners of a run."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch

from agents.network import ActorCritic, NetworkInput, NetworkOutput

Gradients = Sequence[torch.Tensor | None]  # of the trained parameters, in their order; None for one without influence


class Averaged(Protocol):
    """A network whose gradients are means over all learners. An update gets them by `backward` or by `take`."""

    def __call__(self, inputs: NetworkInput, last_is_bootstrap: bool = False) -> NetworkOutput:
        """The network's forward pass, for `backward`."""

    def backward(self, loss: torch.Tensor) -> None:
        """The gradients of a loss of the latest forward pass, in place of earlier ones."""

    def take(self, gradients: Gradients) -> None:
        """Gradients that were computed in another way, of the same loss.

        The update may have tried `backward` before. What it has sent to the other learners by then stays valid.
        """


class Peers:
    """All learners of a run make each update together, each from its own part of the batch. Here, there is only one."""

    size = 1  # how many learners there are

    def averaging(self, network: ActorCritic) -> Averaged:
        """The network, with gradients that are means over all learners."""
        return OwnGradients(network)

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        """`rows [N, ...]` of every learner, one after another; each learner gives as many."""
        return rows


class OwnGradients:
    """The network of a run with one learner."""

    def __init__(self, network: ActorCritic) -> None:
        self._network = network
        self._parameters = trained_parameters(network)

    def __call__(self, inputs: NetworkInput, last_is_bootstrap: bool = False) -> NetworkOutput:
        output: NetworkOutput = self._network(inputs, last_is_bootstrap)
        return output

    def backward(self, loss: torch.Tensor) -> None:
        clear_gradients(self._parameters)
        torch.autograd.backward(loss)

    def take(self, gradients: Gradients) -> None:
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient


def trained_parameters(network: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that updates change. A torso of the user's own may have others."""
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


def clear_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None
