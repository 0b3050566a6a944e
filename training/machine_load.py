"""How a run uses the machine: CPU, memory, GPU, and the workers' time by stage."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from machine.device import gpu_memory_mb, gpu_utilization
from run_files.metrics import JsonValue
from workers.shared_array import CPU, STAGES, SharedArray
from workers.worker_pool import WorkerPool

MEMORY_SECONDS = 5.0  # between two measurements of memory


class _Mark(NamedTuple):
    """Readings of the clocks at one moment."""

    seconds: float
    learner_cpu: float
    workers: NDArray[np.float64]  # of all workers: seconds by stage, then of CPU time


class MachineLoad:
    """Measures since the latest report, and since the start of the run."""

    def __init__(self, times: SharedArray, pool: WorkerPool, device: torch.device) -> None:
        self._times = times
        self._pool = pool
        self._device = device
        self._memory = (0.0, 0.0)
        self._memory_at = float("-inf")
        self._start = self._last_report = self._mark()
        psutil.cpu_percent()  # the next call measures from here

    def _mark(self) -> _Mark:
        return _Mark(time.monotonic(), time.process_time(), self._times.array.sum(axis=0))

    def figures(self, frames_per_second: float) -> dict[str, JsonValue]:
        """Figures since the latest report, by their names in metrics.jsonl; memory was measured a few seconds ago.

        `frames_per_second` are those that this machine plays; what a frame costs is not known if it is 0.
        """
        now = time.monotonic()
        if now - self._memory_at > MEMORY_SECONDS:
            self._memory, self._memory_at = memory_in_use(self._pool.children.process_ids()), now
        learner, workers = self._cpu_since(self._last_report)
        return {
            "cpu_learner": learner,  # percent of one core
            "cpu_workers": workers,
            "worker_time_shares": self._shares_since(self._last_report),
            "memory_learner_mb": self._memory[0],
            "memory_workers_mb": self._memory[1],
            "gpu_utilization": gpu_utilization(self._device),  # in the latest second at most
            "gpu_memory_mb": gpu_memory_mb(self._device),
            "core_seconds_per_1000_frames": 10 * (learner + workers) / frames_per_second if frames_per_second else None,
        }

    def begin_interval(self) -> None:
        """Called after a report."""
        self._last_report = self._mark()

    def worker_shares(self) -> dict[str, float | None]:
        """Fractions of the workers' time by stage since the start of the run; None before the first unroll."""
        return self._shares_since(self._start)

    def cores_in_use(self, cores: int) -> tuple[float, float]:
        """Fractions of the cores used by this run since its start, and by other programs.

        The use by other programs is unknown (0) if the run may use only some of the machine's cores.
        """
        ours = min(1.0, sum(self._cpu_since(self._start)) / 100 / cores)
        everyone = psutil.cpu_percent() / 100 if cores == psutil.cpu_count() else 0.0
        return ours, max(0.0, everyone - ours)

    def _cpu_since(self, mark: _Mark) -> tuple[float, float]:
        """Percent of one core: of the learner, and of all workers together."""
        now = self._mark()
        seconds = max(now.seconds - mark.seconds, 1e-9)
        learner, workers = now.learner_cpu - mark.learner_cpu, float(now.workers[CPU] - mark.workers[CPU])
        return 100 * learner / seconds, 100 * workers / seconds

    def _shares_since(self, mark: _Mark) -> dict[str, float | None]:
        spent = (self._times.array.sum(axis=0) - mark.workers)[:CPU]
        whole = float(spent.sum())
        return {name: float(part) / whole if whole else None for name, part in zip(STAGES, spent, strict=True)}


def memory_in_use(worker_ids: Sequence[int]) -> tuple[float, float]:
    """Megabytes of the learner, and of all workers without the memory that they share.

    One worker stands for all: the kernel takes ten milliseconds to tell what a process shares.
    """
    learner = psutil.Process().memory_info().rss / 1e6
    for process_id in reversed(worker_ids):  # the first one may be an inference server
        with suppress(psutil.NoSuchProcess):  # it has died since; the pool replaces it
            worker = psutil.Process(process_id)
            own = worker.memory_full_info().uss if psutil.LINUX else worker.memory_info().rss
            return learner, len(worker_ids) * own / 1e6
    return learner, 0.0
