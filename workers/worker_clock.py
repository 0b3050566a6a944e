"""Measures how much time the workers spend in each stage, in shared memory that the learner reads."""

import time

import numpy as np
from numpy.typing import NDArray

from workers.memory.shared_array import SharedArray

STAGES = ("environment", "inference", "waiting", "weights", "rest")
ENVIRONMENT, INFERENCE, WAITING, WEIGHTS, REST = range(len(STAGES))
CPU = len(STAGES)  # the column after the stages
COLUMNS = len(STAGES) + 1


class WorkerTimes(SharedArray):
    """Shared seconds `[worker, column]`: a column for each stage, then one for CPU time.

    They only rise: the replacement of a worker adds to the seconds of the worker before it.
    """

    def __init__(self, workers: int) -> None:
        super().__init__((workers, COLUMNS), np.float64)

    @property
    def seconds(self) -> NDArray[np.float64]:
        return self.array

    def totals(self) -> NDArray[np.float64]:
        """The sums `[column]` over all workers."""
        totals: NDArray[np.float64] = self.array.sum(axis=0)
        return totals


class WorkerClock:
    """One worker's stopwatch. It counts in plain numbers, and `share` adds them to shared memory once per round."""

    def __init__(self, shared: NDArray[np.float64]) -> None:
        self._shared = shared  # [column]
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
