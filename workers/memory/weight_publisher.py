"""Copies the learner's weights into shared memory after each update."""

import weakref
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import flat_weights, write_flat_weights
from agents.network import ActorCritic
from workers.memory.shared_weights import SharedWeights


class CopyEvent(Protocol):
    """The part of a CUDA event that shows whether a copy that started before `record` is complete."""

    def record(self) -> Any: ...

    def query(self) -> bool: ...

    def synchronize(self) -> Any: ...


class WeightPublisher:
    """Publishes the weights after each update.

    On a GPU, `post` is called while the update is still being computed. The copy is then queued behind the update and
    published when it is complete, at the latest before the next copy starts. So the learner does not wait for it.
    """

    def __init__(self, network: ActorCritic, weights: SharedWeights, copied: CopyEvent | None) -> None:
        self._network = network
        self.weights = weights
        self._copied = copied
        self._copying: int | None = None  # the version of the copy that is not published yet

    def post(self, version: int) -> None:
        """Start to publish the weights as they are after `version` updates."""
        if self._copied is None:
            with self.weights.publishing(version) as buffer:
                write_flat_weights(self._network, buffer)
            return
        self.deliver(wait=True)
        flat = flat_weights(self._network)
        self.weights.begin().copy_(flat, non_blocking=True)
        self._copied.record()
        self._copying = version

    def deliver(self, wait: bool = False) -> None:
        """Publish the copy if it is complete; with `wait`, wait until it is."""
        if self._copied is None or self._copying is None:
            return
        if wait:
            self._copied.synchronize()
        if self._copied.query():
            self.weights.complete(self._copying)
            self._copying = None


def make_publisher(network: ActorCritic, weights: SharedWeights, at_once: bool) -> WeightPublisher:
    """With `at_once`, `post` publishes before it returns, on any device."""
    if network.projection.device.type != "cuda" or at_once:
        return WeightPublisher(network, weights, None)
    pin(weights.memory)
    return WeightPublisher(network, weights, torch.cuda.Event())  # type: ignore[no-untyped-call]


def pin(memory: NDArray[np.uint8]) -> None:
    """Let the GPU copy to this memory by itself. Where the system refuses it, copies take longer."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    if runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0) == runtime.cudaError.success:
        weakref.finalize(memory, runtime.cudaHostUnregister, memory.ctypes.data)
    else:
        with suppress(RuntimeError):  # CUDA reports the error again at the next kernel; this one takes it
            torch.zeros(1, device="cuda").add_(1)
