"""Measure how many unrolls a second the learner drains, mixes and learns from. Workers are never the bottleneck."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from agents.acting import weight_count
from agents.learner import Learner
from machine.machine_setup import choose_slots_per_worker
from processes.pool import ChildPool
from replay.mix import BatchMix
from tests.benchmarks.recorded_worker import RecordedWorker
from tests.benchmarks.recording import record_untrained
from tests.benchmarks.stages import Bench
from training.loop import POLL_SECONDS
from training.make_replays import make_replays
from workers.flow_control import PlayOnDemand
from workers.shared_array import SharedArray
from workers.shared_weights import SharedWeights, make_publisher
from workers.worker_pool import WorkerPool

DRAIN, MIX, LEARN = "drain", "drain and mix", "drain, mix, update, publish"
START_SECONDS = 120.0  # all workers must have delivered an unroll by then
AT_ONCE = 64  # unrolls taken between two checks of the pipes, at most, when nothing is mixed


@dataclass(frozen=True)
class Drained:
    """The speed of the learner with a number of workers."""

    workers: int
    work: str
    unrolls_per_second: float
    cpu_seconds: float  # of the learner, for each unroll


class LearnerSide:
    """The learner's part of the training loop, in three variants: `drain`, `drain_and_mix` and `learn`."""

    def __init__(self, bench: Bench) -> None:
        self._learner: Learner = bench.learner()
        self._bench = bench
        self._outbox = make_publisher(
            self._learner.network, SharedWeights(weight_count(self._learner.network)), at_once=False
        )
        self.mix = self._make_mix()

    def _make_mix(self) -> BatchMix:
        options, layout = self._bench.config.replay, self._bench.layout
        seed = np.random.SeedSequence(0)
        replays = make_replays(options, layout, seed, self._learner.network, planned_updates=10**9)
        return BatchMix(replays, layout, pin_memory=self._bench.device.type == "cuda")

    def drain(self, pool: WorkerPool) -> int:
        pool.wait(POLL_SECONDS)
        return sum(1 for _ in pool.take(AT_ONCE))

    def drain_and_mix(self, pool: WorkerPool, then: Callable[[], object] = lambda: None) -> int:
        pool.wait(POLL_SECONDS if not self.mix.ready() else 0.0)
        taken = 0
        for unroll in pool.take(self.mix.unrolls_accepted()):
            self.mix.add(unroll)
            taken += 1
        if self.mix.ready():
            self._batch = self.mix.mix(self._learner.updates)
            then()
        return taken

    def learn(self, pool: WorkerPool) -> int:
        return self.drain_and_mix(pool, self._update)

    def _update(self) -> None:
        self._learner.update(self._batch)
        self._outbox.post(self._learner.updates)


@contextmanager
def recorded_pool(bench: Bench, workers: int) -> Iterator[WorkerPool]:
    """A pool of workers that write a recorded rollout again and again. All have delivered at least once."""
    count, nbytes = bench.config.workers.envs_per_worker, bench.layout.nbytes
    recording = SharedArray((count, nbytes))
    recording.array[:] = record_untrained(bench.config, bench.layout, bench.worker_precision, count)
    slots = SharedArray((workers, choose_slots_per_worker(bench.config, workers), count, nbytes))
    delivered = SharedArray((workers,), np.int64)
    children = ChildPool(print, silence=START_SECONDS, budget=0)
    pool = WorkerPool(
        children,
        lambda index, *_: RecordedWorker(recording, delivered, slots, index),
        slots.array,
        PlayOnDemand(workers * slots.array.shape[1]),
    )
    with closing(pool):
        end = time.monotonic() + START_SECONDS
        while not delivered.array.all():
            if time.monotonic() > end:
                raise RuntimeError(f"{workers} workers did not all start within {START_SECONDS:g} seconds")
            pool.wait(POLL_SECONDS)
        yield pool


def measure_drain(bench: Bench, workers: int, seconds: float) -> list[Drained]:
    """Measure each kind of work for `seconds`, after a burn-in of a fifth of them."""
    side = LearnerSide(bench)
    iterations = {DRAIN: side.drain, MIX: side.drain_and_mix, LEARN: side.learn}
    results = []
    with recorded_pool(bench, workers) as pool:
        for work, iteration in iterations.items():
            _work_for(seconds / 5, iteration, pool)
            cpu, begun = time.process_time(), time.perf_counter()
            unrolls = _work_for(seconds, iteration, pool)
            if bench.device.type == "cuda":
                torch.cuda.synchronize()
            spent = time.perf_counter() - begun
            results.append(Drained(workers, work, unrolls / spent, (time.process_time() - cpu) / max(1, unrolls)))
    return results


def _work_for(seconds: float, iteration: Callable[[WorkerPool], int], pool: WorkerPool) -> int:
    """Repeat `iteration` for `seconds`. Returns the number of unrolls taken."""
    end, unrolls = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        unrolls += iteration(pool)
    return unrolls
