"""A learner on a GPU with little memory: torch's error, raised for too many unrolls at once."""

from typing import Any

import torch

from agents.learner import Learner

PLACES = ("forward", "heads", "convolutions")  # where the memory is used up; the last two in the backward pass


class SmallGpu:
    """From now on, an update of `learner` with more than `unrolls` at once fails at `place`."""

    def __init__(self, learner: Learner, unrolls: int, place: str = "forward") -> None:
        self.unrolls = unrolls
        self.seen: list[int] = []  # the unrolls of each forward pass
        self._place = place
        network = learner.network
        network.register_forward_hook(self._after_forward)
        if place == "convolutions":
            first = next(module for module in network.torso.modules() if isinstance(module, torch.nn.Conv2d))
            first.register_forward_hook(self._after_convolution)

    def _after_forward(self, network: Any, inputs: Any, output: Any) -> None:
        self.seen.append(output.values.shape[1])
        if self._place == "forward":
            self._check()
        if self._place == "heads" and output.logits.requires_grad:
            output.logits.register_hook(lambda gradient: self._check())

    def _after_convolution(self, convolution: Any, inputs: Any, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda gradient: self._check())  # type: ignore[no-untyped-call]

    def _check(self) -> None:
        if self.seen[-1] > self.unrolls:
            raise out_of_memory()


def out_of_memory() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
