"""Measures how much time the workers spend in each stage, in shared memory that the learner reads."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.memory.shared_block import SharedBlock

STAGES = ("environment", "inference", "waiting", "weights", "rest")
ENVIRONMENT, INFERENCE, WAITING, WEIGHTS, REST = range(len(STAGES))
CPU = len(STAGES)  # the column after the stages
COLUMNS = len(STAGES) + 1


class WorkerTimes:
    """Shared seconds `[worker, column]`: a column for each stage, then one for CPU time.

    They only rise: the replacement of a worker adds to the seconds of the worker before it.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._block = SharedBlock(8 * workers * COLUMNS)
        self._open()

    def _open(self) -> None:
        self.seconds: NDArray[np.float64] = self._block.bytes.view(np.float64).reshape(self._workers, COLUMNS)

    def totals(self) -> NDArray[np.float64]:
        """The sums `[column]` over all workers."""
        totals: NDArray[np.float64] = self.seconds.sum(axis=0)
        return totals

    def close(self) -> None:
        self._block.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"workers": self._workers, "block": self._block}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._workers, self._block = state["workers"], state["block"]
        self._open()


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
