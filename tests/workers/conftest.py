"""Pools of real processes, which are closed after each test."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import psutil
import pytest

from tests.workers.pattern_worker import ROW_BYTES, PatternWorker, SilentServer
from tests.workers.pools import SILENCE_LIMIT, Clock, MakePool
from workers.inference.server import InferenceServer
from workers.memory.slots import Slots
from workers.processes.child_process import start_process
from workers.worker_pool import WorkerPool


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_pool(clock: Clock) -> Iterator[MakePool]:
    pools = []

    def make(
        workers: int = 2,
        slots: int = 2,
        environments: int = 2,
        lockstep: bool = False,
        restart_budget: int = 100,
        server: SilentServer | None = None,
        start: Callable[..., Any] = start_process,
        **behaviour: float,
    ) -> tuple[WorkerPool, list[str]]:
        memory = Slots(workers, slots, environments, ROW_BYTES)
        announced: list[str] = []
        pool = WorkerPool(
            partial(PatternWorker, memory, **behaviour),  # type: ignore[arg-type]
            memory,
            announced.append,
            lockstep=lockstep,
            silence_limit=SILENCE_LIMIT,
            restart_budget=restart_budget,
            server=cast(InferenceServer | None, server),
            clock=clock,
            start=start,
        )
        pools.append((pool, memory))
        return pool, announced

    yield make
    for pool, memory in pools:
        pool.close()
        memory.close()
    # multiprocessing's own resource tracker stays for the life of this process.
    children = [child for child in psutil.Process().children() if "resource_tracker" not in " ".join(child.cmdline())]
    assert not children
