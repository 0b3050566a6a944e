"""Memory shared by the learner and its workers."""

import mmap
import os
import tempfile
import weakref
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
from numpy.typing import NDArray


class SharedBlock:
    """`nbytes` zeroed bytes; a spawned child that receives the block sees the same bytes.

    The block has no name: the system frees it when the last process that holds it ends, for whatever reason. On Linux
    it is an anonymous memory file, which uses nothing of /dev/shm; elsewhere it is a deleted temporary file.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._keep(_nameless_file())
        os.ftruncate(self._fd, max(1, nbytes))  # an empty file cannot be mapped
        self.bytes = self._map()

    def _keep(self, fd: int) -> None:
        self._fd = fd
        self._close = weakref.finalize(self, os.close, fd)

    def _map(self) -> NDArray[np.uint8]:
        return np.frombuffer(mmap.mmap(self._fd, max(1, self.nbytes)), dtype=np.uint8)[: self.nbytes]

    def close(self) -> None:
        """Close the file: no more children can receive the block. The bytes stay while an array uses them."""
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        return {"nbytes": self.nbytes, "fd": DupFd(self._fd)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.nbytes = state["nbytes"]
        self._keep(state["fd"].detach())  # a worker passes the block on to its inference processes
        self.bytes = self._map()


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rl-platform", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
