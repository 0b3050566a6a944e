"""Inference processes that do not get ready."""

import multiprocessing
import selectors
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest

from replay.unroll_layout import UnrollLayout
from workers.inference.rows import InferenceRows
from workers.messages import Kind, send
from workers.realtime.inference_pool import FAILURES_IN_A_ROW, InferencePool, Joined

LAYOUT = UnrollLayout(3, 1, (1, 2, 2), 2, delayed_actions=True, real_time=True)
PATIENCE = 10.0


class Starts:
    """Starts processes that are none; a test says what they send."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.others: list[Connection] = []  # the processes' ends of their pipes
        self.killed = 0

    def __call__(self, worker: Any, name: str) -> tuple[Any, Connection]:
        here, there = multiprocessing.Pipe()
        self.others.append(there)
        nothing: Callable[[], None] = lambda: None  # noqa: E731
        return SimpleNamespace(pid=1, kill=self._kill, join=nothing, close=nothing, exitcode=-9), here

    def _kill(self) -> None:
        self.killed += 1


@pytest.fixture
def starts() -> Iterator[Starts]:
    starts = Starts()
    with starts.selector:
        yield starts


@pytest.fixture
def pool(starts: Starts) -> Iterator[InferencePool]:
    make: Any = lambda index: index  # noqa: E731
    with (
        closing(InferenceRows(LAYOUT, 1, 1)) as rows,
        closing(InferencePool(make, rows, starts.selector, starts)) as pool,
    ):
        yield pool


def events_of(pool: InferencePool, starts: Starts) -> list[Any]:
    """What comes of the next pipe that is ready."""
    (key, _), *_ = starts.selector.select(PATIENCE)
    return list(pool.receive(None if key.data is pool else key.data))


def test_a_process_that_does_not_get_ready_is_replaced(pool: InferencePool, starts: Starts) -> None:
    assert events_of(pool, starts) == [] and len(starts.others) == 1, "it is started"
    pool.replace_silent_starts(60.0)
    assert starts.killed == 0
    pool.replace_silent_starts(0.0)
    assert starts.killed == 1
    assert events_of(pool, starts) == [] and len(starts.others) == 2
    send(starts.others[1], Kind.HEARTBEAT)
    assert events_of(pool, starts) == [Joined(0)]
    pool.replace_silent_starts(0.0)
    assert starts.killed == 1, "it is ready"


def test_processes_that_never_get_ready_end_the_worker(pool: InferencePool, starts: Starts) -> None:
    for _ in range(FAILURES_IN_A_ROW - 1):
        events_of(pool, starts)
        pool.replace_silent_starts(0.0)
    events_of(pool, starts)
    with pytest.raises(RuntimeError, match="inference process 0 failed 5 times before it made a decision"):
        pool.replace_silent_starts(0.0)
