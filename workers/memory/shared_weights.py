"""The policy's weights in shared memory: the learner publishes them, workers copy the newest."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor
from workers.memory.shared_block import SharedBlock

NOT_PUBLISHED = -1

_BUFFERS = 3
_HEADER_BYTES = 64


class SharedWeights:
    """Three buffers of float32, each with a version number, so that no copy mixes two versions.

    A reader copies the newest buffer and then checks that its version is unchanged. If the writer has published twice
    meanwhile and started to overwrite this buffer, the reader copies again.
    """

    def __init__(self, weight_count: int) -> None:
        self.weight_count = weight_count
        self._block = SharedBlock(_HEADER_BYTES + _BUFFERS * 4 * weight_count)
        self._open()
        self._latest[0] = NOT_PUBLISHED
        self._versions[:] = NOT_PUBLISHED

    def _open(self) -> None:
        header = self._block.bytes[:_HEADER_BYTES].view(np.int64)
        self._latest, self._versions = header[:1], header[1 : 1 + _BUFFERS]
        self._buffers = self._block.bytes[_HEADER_BYTES:].view(np.float32).reshape(_BUFFERS, self.weight_count)
        self._fence = threading.Lock()

    def publish(self, version: int, flat: torch.Tensor) -> None:
        """Make `flat [weight_count]` the newest weights. Versions rise."""
        with self.publishing(version) as buffer:
            buffer.copy_(flat)

    @contextmanager
    def publishing(self, version: int) -> Iterator[torch.Tensor]:
        """Yield a tensor `[weight_count]`; what the `with` block writes there becomes the newest weights."""
        yield self.begin()
        self.complete(version)

    def begin(self) -> torch.Tensor:
        """A tensor `[weight_count]` for the next weights; `complete` makes what is written there the newest ones."""
        buffer = self._next_buffer
        self._versions[buffer] = NOT_PUBLISHED
        self._order_memory()
        return torch.from_numpy(self._buffers[buffer])

    def complete(self, version: int) -> None:
        buffer = self._next_buffer
        self._order_memory()
        self._versions[buffer] = version
        self._latest[0] = version

    @property
    def _next_buffer(self) -> int:
        """Readers copy the newest weights meanwhile, or those before."""
        return (self._buffer_of(int(self._latest[0])) + 1) % _BUFFERS

    def copy_newer(self, known_version: int, out: torch.Tensor) -> int:
        """Copy weights newer than `known_version`, if there are any, to `out [weight_count]`; return their version."""
        while (version := int(self._latest[0])) > known_version:
            buffer = self._buffer_of(version)
            self._order_memory()
            out.numpy()[:] = self._buffers[buffer]
            self._order_memory()
            if self._versions[buffer] == version:
                return version
        return known_version

    @property
    def memory(self) -> NDArray[np.uint8]:
        """All of it, the same bytes in each process."""
        return self._block.bytes

    def close(self) -> None:
        self._block.close()

    def _buffer_of(self, version: int) -> int:
        """The buffer that has this version; the first one if none has."""
        return int(np.argmax(self._versions == version))

    def _order_memory(self) -> None:
        """Prevent the processor from moving reads or writes across this point. Some do that, but not x86."""
        with self._fence:
            pass

    def __getstate__(self) -> dict[str, object]:
        return {"weight_count": self.weight_count, "block": self._block}

    def __setstate__(self, state: dict[str, object]) -> None:
        weight_count, block = state["weight_count"], state["block"]
        assert isinstance(weight_count, int) and isinstance(block, SharedBlock)
        self.weight_count, self._block = weight_count, block
        self._open()


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
