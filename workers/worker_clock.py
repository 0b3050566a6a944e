"""Where the workers' time goes: measured by themselves, and seen by the learner through shared memory."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.shared_block import SharedBlock

STAGES = ("environment", "inference", "waiting", "weights", "rest")
ENVIRONMENT, INFERENCE, WAITING, WEIGHTS, REST = range(len(STAGES))
CPU = len(STAGES)  # the column after them
COLUMNS = len(STAGES) + 1


class WorkerTimes:
    """Shared seconds `[worker, stage and then CPU]`, which only rise: a worker's replacement adds to what it finds."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._block = SharedBlock(8 * workers * COLUMNS)
        self._open()

    def _open(self) -> None:
        self.seconds: NDArray[np.float64] = self._block.bytes.view(np.float64).reshape(self._workers, COLUMNS)

    def totals(self) -> NDArray[np.float64]:
        """The sums `[stage and then CPU]` over all workers."""
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
    """One worker's stopwatch. It counts in plain numbers, and shares them once in an unroll, so a step pays little."""

    def __init__(self, shared: NDArray[np.float64]) -> None:
        self._shared = shared  # [stage and then CPU]
        self._seconds = [0.0] * len(STAGES)
        self._cpu = 0.0  # from the start of the process on: loading is work, too
        self._last = time.perf_counter()

    def lap(self, stage: int) -> None:
        """Count the time since the last lap towards a stage."""
        now = time.perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now

    def share(self) -> None:
        """Add what was counted to what the learner sees."""
        cpu = time.process_time()
        self._shared += [*self._seconds, cpu - self._cpu]
        self._cpu = cpu
        self._seconds = [0.0] * len(STAGES)
