"""Memory shared by the learner and its workers."""

import math
import mmap
import os
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from processes.handover import Handle, nameless_file


class SharedArray:
    """An array of zeros; a child process that receives it sees the same memory.

    The memory has no name: the system frees it when the last process that holds it ends, for whatever reason. On Linux
    it is an anonymous memory file, which uses nothing of /dev/shm; elsewhere it is a deleted temporary file.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._nbytes = math.prod(shape) * self._dtype.itemsize
        self._open(nameless_file(), is_new=True)

    def _open(self, fd: int, is_new: bool) -> None:
        self._fd = fd
        self._close = weakref.finalize(self, os.close, fd)
        mapped = max(1, self._nbytes)  # an empty file cannot be mapped
        if is_new:
            os.ftruncate(fd, mapped)
        content = np.frombuffer(mmap.mmap(fd, mapped), np.uint8)[: self._nbytes]
        self.array: NDArray[Any] = content.view(self._dtype).reshape(self._shape)

    def close(self) -> None:
        """Close the file: no more children can receive the array. The memory stays while an array uses it."""
        self._close()

    def __getstate__(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._nbytes, Handle(self._fd)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._shape, self._dtype, self._nbytes, handle = state
        self._open(handle.file, is_new=False)  # a worker passes it on to its inference processes
