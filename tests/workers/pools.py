"""Helpers: the clock of a pool, its unrolls, and waiting for its events."""

import time
from collections.abc import Callable

from tests.workers.pattern_worker import read_pattern
from workers.worker_pool import WorkerPool

MakePool = Callable[..., tuple[WorkerPool, list[str]]]
SILENCE_LIMIT = 60.0


class Clock:
    """The pool's clock, which stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def be_silent(clock: Clock, wait: Callable[[float], object]) -> None:
    """Let so much time pass that a process that says nothing hangs. `wait` is that of its parent."""
    for seconds in (SILENCE_LIMIT, 1.0):
        clock.now += seconds
        wait(0.0)


def after(seconds: float) -> Callable[[], bool]:
    """Whether so much time has passed since this call."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def take(pool: WorkerPool, count: int, limit: int = 3) -> list[tuple[int, int, int, int]]:
    """The patterns of the next `count` unrolls."""
    patterns: list[tuple[int, int, int, int]] = []
    while len(patterns) < count:
        pool.wait(0.1)
        patterns.extend(read_pattern(row) for row in pool.take(min(limit, count - len(patterns))))
    return patterns


def wait_for_replacements(pool: WorkerPool, clock: Clock) -> None:
    """Move the clock until all lost workers are replaced."""
    while pool.alive < pool.size:
        clock.now += 0.5
        pool.wait(0.01)


def wait_for_error(pool: WorkerPool, clock: Clock) -> None:
    while True:
        pool.wait(0.1)
        wait_for_replacements(pool, clock)


def wait_for_silence(pool: WorkerPool, clock: Clock, announced: list[str]) -> None:
    """Move the clock until a silent process is replaced."""
    while not announced:
        clock.now += SILENCE_LIMIT / 3  # a longer step would count as a stop of the learner
        pool.wait(0.01)
        list(pool.take(100))
