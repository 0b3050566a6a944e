"""What an update needs of the other learners of a run."""

from typing import Protocol

import torch

from agents.network import ActorCritic, NetworkInput, NetworkOutput


class Forward(Protocol):
    """The forward pass of a network."""

    def __call__(self, inputs: NetworkInput, last_is_bootstrap: bool = False) -> NetworkOutput: ...


class Peers(Protocol):
    """All learners of a run make each update together, each from its own part of the batch."""

    @property
    def size(self) -> int:
        """How many learners there are."""

    def averaging(self, network: ActorCritic) -> Forward:
        """The network's forward pass, after whose backward pass the gradients are means over all learners."""

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        """`rows [N, ...]` of every learner, one after another; each learner gives as many."""


class NoPeers:
    """A run with one learner."""

    size = 1

    def averaging(self, network: ActorCritic) -> Forward:
        forward: Forward = network
        return forward

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        return rows
