"""The policy's weights on their way from the learner to the workers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from workers.shared_block import SharedBlock

NOT_PUBLISHED = -1

_HEADER_BYTES = 64


class SharedWeights:
    """Two buffers of float32, written in turn, each under a version number, so that nobody ever acts on a torn copy.

    A reader copies the newest buffer and then looks whether its version still stands; only a writer two versions
    ahead can have touched it, and then the reader copies again.
    """

    def __init__(self, weight_count: int) -> None:
        self.weight_count = weight_count
        self._block = SharedBlock(_HEADER_BYTES + 2 * 4 * weight_count)
        self._open()
        self._latest[0] = NOT_PUBLISHED

    def _open(self) -> None:
        header = self._block.bytes[:_HEADER_BYTES].view(np.int64)
        self._latest, self._versions = header[:1], header[1:3]
        self._buffers = self._block.bytes[_HEADER_BYTES:].view(np.float32).reshape(2, self.weight_count)
        self._fence = threading.Lock()

    def publish(self, version: int, flat: torch.Tensor) -> None:
        """Make `flat [weight_count]` the newest weights; each version is one above the last."""
        with self.publishing(version) as place:
            place.copy_(flat)

    @contextmanager
    def publishing(self, version: int) -> Iterator[torch.Tensor]:
        """The newest weights are what the block writes to the tensor `[weight_count]` that it is given."""
        buffer = version % 2
        self._versions[buffer] = -1
        self._order_memory()
        yield torch.from_numpy(self._buffers[buffer])
        self._order_memory()
        self._versions[buffer] = version
        self._latest[0] = version

    def copy_newer(self, known_version: int, out: torch.Tensor) -> int:
        """Copy the newest weights to `out [weight_count]` if newer than the known ones; return their version."""
        while (version := int(self._latest[0])) > known_version:
            buffer = version % 2
            self._order_memory()
            out.numpy()[:] = self._buffers[buffer]
            self._order_memory()
            if self._versions[buffer] == version:
                return version
        return known_version

    def close(self) -> None:
        self._block.close()

    def _order_memory(self) -> None:
        """Keep the processor from moving reads or writes across this point, which some do and x86 does not."""
        with self._fence:
            pass

    def __getstate__(self) -> dict[str, object]:
        return {"weight_count": self.weight_count, "block": self._block}

    def __setstate__(self, state: dict[str, object]) -> None:
        weight_count, block = state["weight_count"], state["block"]
        assert isinstance(weight_count, int) and isinstance(block, SharedBlock)
        self.weight_count, self._block = weight_count, block
        self._open()
