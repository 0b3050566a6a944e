"""Memory shared by the learner and its workers."""

import mmap
import os
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from processes.handover import Handle, nameless_file


class SharedBlock:
    """`nbytes` zeroed bytes; a child process that receives the block sees the same bytes.

    The block has no name: the system frees it when the last process that holds it ends, for whatever reason. On Linux
    it is an anonymous memory file, which uses nothing of /dev/shm; elsewhere it is a deleted temporary file.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._keep(nameless_file())
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
        return {"nbytes": self.nbytes, "fd": Handle(self._fd)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.nbytes = state["nbytes"]
        self._keep(state["fd"].file)  # a worker passes the block on to its inference processes
        self.bytes = self._map()
