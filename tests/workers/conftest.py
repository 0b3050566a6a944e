"""Pools of real processes, which are closed after each test."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psutil
import pytest

from processes.child import Child
from processes.fork_server import start_forked
from processes.pool import ChildPool
from tests.workers.pattern_worker import ROW_BYTES, PatternWorker, SilentServer
from tests.workers.pools import SILENCE_LIMIT, Clock, MakePool
from workers.flow_control import Lockstep, PlayOnDemand
from workers.shared_array import SharedArray
from workers.worker_pool import WorkerPool


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_pool(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePool]:
    monkeypatch.setattr("processes.child.ANSWER_SECONDS", 0.2)  # of stopped processes, which do not answer
    pools = []
    before = psutil.Process().children()  # such as a cluster that other tests share

    def make(
        workers: int = 2,
        slots: int = 2,
        environments: int = 2,
        lockstep: bool = False,
        restart_budget: int = 100,
        server: SilentServer | None = None,
        snapshot: dict[str, Any] | None = None,
        start: Callable[[Any, str], Child] | None = None,
        **behaviour: float,
    ) -> tuple[WorkerPool, list[str]]:
        memory = SharedArray((workers, slots, environments, ROW_BYTES))
        announced: list[str] = []
        children = ChildPool(
            announced.append,
            silence=SILENCE_LIMIT,
            budget=restart_budget,
            start=start or start_forked,
            clock=clock,
        )

        pool = WorkerPool(
            children,
            partial(PatternWorker, memory, **behaviour),  # type: ignore[arg-type]
            memory.array,
            Lockstep(workers) if lockstep else PlayOnDemand(workers * slots),
            None if server is None else lambda pipes: server,
            snapshot,
        )
        pools.append(pool)
        return pool, announced

    yield make
    for pool in pools:
        pool.close()
    for child in psutil.Process().children():  # the fork server stays, but not what it has forked
        if child not in before or "fork server" in " ".join(child.cmdline()):
            assert "fork server" in " ".join(child.cmdline()) and not child.children()
