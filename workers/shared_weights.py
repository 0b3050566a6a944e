"""The policy's weights in shared memory: the learner publishes them, workers copy the newest."""

import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor, flat_weights, write_flat_weights
from agents.network import ActorCritic
from workers.shared_array import SharedArray

NOT_PUBLISHED = -1

_BUFFERS = 3


class SharedWeights:
    """Three buffers of float32, each with a version number, so that no copy mixes two versions.

    A reader copies the newest buffer and then checks that its version is unchanged. If the writer has published twice
    meanwhile and started to overwrite this buffer, the reader copies again.
    """

    def __init__(self, weight_count: int) -> None:
        self.weight_count = weight_count
        self._numbers = SharedArray((1 + _BUFFERS,), np.int64)  # the newest version, then that of each buffer
        self._numbers.array[:] = NOT_PUBLISHED
        self.buffers = SharedArray((_BUFFERS, weight_count), np.float32)

    def publish(self, version: int, flat: torch.Tensor) -> None:
        """Make `flat [weight_count]` the newest weights. Versions rise."""
        self.begin().copy_(flat)
        self.complete(version)

    def begin(self) -> torch.Tensor:
        """A tensor `[weight_count]` for the next weights; `complete` makes what is written there the newest ones."""
        buffer = self._next_buffer
        self._numbers.array[1 + buffer] = NOT_PUBLISHED
        order_memory()
        return torch.from_numpy(self.buffers.array[buffer])

    def complete(self, version: int) -> None:
        buffer = self._next_buffer
        order_memory()
        self._numbers.array[1 + buffer] = version
        self._numbers.array[0] = version

    @property
    def _next_buffer(self) -> int:
        """Readers copy the newest weights meanwhile, or those before."""
        return (self._buffer_of(int(self._numbers.array[0])) + 1) % _BUFFERS

    def copy_newer(self, known_version: int, out: torch.Tensor) -> int:
        """Copy weights newer than `known_version`, if there are any, to `out [weight_count]`; return their version."""
        while (version := int(self._numbers.array[0])) > known_version:
            buffer = self._buffer_of(version)
            order_memory()
            out.numpy()[:] = self.buffers.array[buffer]
            order_memory()
            if self._numbers.array[1 + buffer] == version:
                return version
        return known_version

    def _buffer_of(self, version: int) -> int:
        """The buffer that has this version; the first one if none has."""
        return int(np.argmax(self._numbers.array[1:] == version))


def order_memory() -> None:
    """Prevent the processor from moving reads or writes across this point. ARM does that, but not x86.

    What comes before a release is complete when it happens, what comes after an acquire begins later, and a release is
    never overtaken by an acquire that follows it. An acquire and then a release, alone, would let both sides move in
    between the two.
    """
    fence = threading.Lock()
    fence.acquire()
    fence.release()
    fence.acquire()


class NewestWeights:
    """Keeps the weights of an actor up to date."""

    def __init__(self, weights: SharedWeights, actor: Actor, device: torch.device) -> None:
        self._weights = weights
        self._actor = actor
        self._device = device
        self._flat = torch.zeros(weights.weight_count, pin_memory=device.type == "cuda")
        self._version = NOT_PUBLISHED

    def load(self) -> int:
        """Load newer weights if there are any; return the version that the actor has now."""
        newest = self._weights.copy_newer(self._version, self._flat)
        if newest != self._version:
            self._actor.load(self._flat.to(self._device))  # one copy to the device
            self._version = newest
        return self._version


class WeightPublisher:
    """Publishes the learner's weights after each update.

    On a GPU, `post` is called while the update is still being computed. The copy is then queued behind the update and
    published when it is complete, at the latest before the next copy starts. So the learner does not wait for it.
    `copied` is a CUDA event, which shows whether a copy is complete; without it, `post` publishes before it returns.
    """

    def __init__(self, network: ActorCritic, weights: SharedWeights, copied: Any = None) -> None:
        self._network = network
        self.weights = weights
        self._copied = copied
        self._copying: int | None = None  # the version of the copy that is not published yet

    def post(self, version: int) -> None:
        """Start to publish the weights as they are after `version` updates."""
        if self._copied is None:
            write_flat_weights(self._network, self.weights.begin())
            self.weights.complete(version)
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
        return WeightPublisher(network, weights)
    pin(weights.buffers.array)
    return WeightPublisher(network, weights, torch.cuda.Event())  # type: ignore[no-untyped-call]


def pin(memory: NDArray[Any]) -> None:
    """Let the GPU copy to this memory by itself. Where the system refuses it, copies take longer."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    if runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0) == runtime.cudaError.success:
        weakref.finalize(memory, runtime.cudaHostUnregister, memory.ctypes.data)
    else:
        with suppress(RuntimeError):  # CUDA reports the error again at the next kernel; this one takes it
            torch.zeros(1, device="cuda").add_(1)
