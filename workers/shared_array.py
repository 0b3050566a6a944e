"""Arrays in memory that the learner shares with its workers, and the workers' times, which are in one."""

import math
import mmap
import os
import time
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from processes.handover import Handle, nameless_file

STAGES = ("environment", "inference", "waiting", "weights", "rest")
ENVIRONMENT, INFERENCE, WAITING, WEIGHTS, REST = range(len(STAGES))
CPU = len(STAGES)  # the column after the stages
COLUMNS = len(STAGES) + 1


class SharedArray:
    """An array of zeros; a child process that receives it sees the same memory.

    The memory has no name: the system frees it when the last process that holds it ends, for whatever reason. On Linux
    it is an anonymous memory file, which uses nothing of /dev/shm; elsewhere it is a deleted temporary file.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._nbytes = math.prod(shape) * self._dtype.itemsize
        self._open(nameless_file())

    def _open(self, fd: int) -> None:
        self._fd = fd
        weakref.finalize(self, os.close, fd)  # then no more children can receive it; arrays keep the memory
        mapped = max(1, self._nbytes)  # an empty file cannot be mapped
        os.ftruncate(fd, mapped)  # a file that has this size already stays as it is
        content = np.frombuffer(mmap.mmap(fd, mapped), np.uint8)[: self._nbytes]
        self.array: NDArray[Any] = content.view(self._dtype).reshape(self._shape)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._nbytes, Handle(self._fd)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._shape, self._dtype, self._nbytes, handle = state
        self._open(handle.file)  # a worker passes it on to its inference processes


def make_times(workers: int) -> SharedArray:
    """Shared seconds `[worker, column]`: a column for each stage, then one for CPU time.

    They only rise: the replacement of a worker adds to the seconds of the worker before it.
    """
    return SharedArray((workers, COLUMNS), np.float64)


class WorkerClock:
    """One worker's stopwatch. It counts in plain numbers, and `share` adds them to shared memory once per round."""

    def __init__(self, shared: NDArray[np.float64] | None = None) -> None:
        self._shared = np.zeros(COLUMNS) if shared is None else shared  # [column]
        self._seconds = [0.0] * len(STAGES)
        self._cpu = 0.0  # counted from the start of the process, imports included
        self._last = time.perf_counter()

    def lap(self, stage: int) -> None:
        """Add the time since the last lap to a stage."""
        now = time.perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now

    def add_cpu(self, seconds: float) -> None:
        """Add CPU time of child processes."""
        self._shared[CPU] += seconds

    def share(self) -> None:
        """Add the counts to shared memory."""
        cpu = time.process_time()
        self._shared += [*self._seconds, cpu - self._cpu]
        self._cpu = cpu
        self._seconds = [0.0] * len(STAGES)
