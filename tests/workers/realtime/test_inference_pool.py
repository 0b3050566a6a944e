"""Inference processes that do not get ready, and some that do."""

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import pytest

from processes.child import start_child
from processes.fork_server import ForkServer
from processes.messages import Kind, receive, send
from processes.pool import FAILURES_IN_A_ROW, ChildPool, WorkersFailedError
from replay.unroll_layout import UnrollLayout
from tests.workers.pools import SILENCE_LIMIT, Clock
from workers.inference.rows import InferenceRows
from workers.realtime.inference import InferencePool

LAYOUT = UnrollLayout(3, 1, (1, 2, 2), 2, delayed_actions=True, real_time=True)


@dataclass(frozen=True)
class Starts:
    """In place of an inference process: it gets ready, or never."""

    ready: bool

    def run(self, connection: Connection) -> None:
        if self.ready:
            send(connection, Kind.HEARTBEAT)
        receive(connection)


class Pool:
    def __init__(self, ready: list[bool], fork_server: ForkServer, clock: Clock) -> None:
        self.announced: list[str] = []
        self._clock = clock
        start = partial(start_child, launch=fork_server)
        self._rows = InferenceRows(LAYOUT, 1, 1)
        children = ChildPool(self.announced.append, silence=SILENCE_LIMIT, start=start, clock=clock)
        make: Any = lambda index, starts: Starts(ready.pop(0))  # noqa: E731
        self.inference = InferencePool(children, make, self._rows)

    def events(self, seconds: float) -> list[Any]:
        """What happens within so many seconds."""
        found: list[Any] = []
        for _ in range(3):
            self._clock.now += seconds / 3
            found += self.inference.receive()
        return found

    def close(self) -> None:
        self.inference.close()
        self._rows.close()


@pytest.mark.slow
def test_a_process_that_does_not_get_ready_is_replaced(fork_server: ForkServer, clock: Clock) -> None:
    with closing(Pool([False, True], fork_server, clock)) as pool:
        assert pool.events(SILENCE_LIMIT) == []
        events = pool.events(3.0)
        assert events[0].what == "lost"
        while not pool.inference.all_ready:
            events += pool.events(0.0)
        assert [event.what for event in events] == ["lost", "joined"]
        assert pool.events(3 * SILENCE_LIMIT) == [], "it is ready"
        assert len(pool.announced) == 1 and "did not respond for 60 seconds" in pool.announced[0]


@pytest.mark.slow
def test_processes_that_never_get_ready_end_the_worker(fork_server: ForkServer, clock: Clock) -> None:
    with closing(Pool([False] * FAILURES_IN_A_ROW, fork_server, clock)) as pool:
        while len(pool.announced) < FAILURES_IN_A_ROW - 1:
            pool.events(1.2 * SILENCE_LIMIT)
        pool.events(SILENCE_LIMIT)
        with pytest.raises(WorkersFailedError, match="ended 5 times in a row before it delivered anything"):
            pool.events(SILENCE_LIMIT)
