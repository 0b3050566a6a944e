"""Several learners of a test, each in a process of its own."""

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from learners.group import LearnerGroup
from learners.rank import STORE, LearnerRank

TIMEOUT = 120.0


def run_group(
    function: Callable[..., Any], *arguments: Any, size: int = 2, timeout: float = TIMEOUT, dying: int = 0
) -> list[Any]:
    """`function(group, *arguments)` in each of `size` connected processes; returns what it returns in each of them.

    `timeout` is that of the group. The last `dying` learners give no answer.
    """
    context = multiprocessing.get_context("spawn")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    connections, processes = [], []
    for rank in range(size):
        here, there = context.Pipe()
        process = context.Process(
            target=_run, args=(there, rank, size, store.port, timeout, function, arguments), daemon=True
        )
        process.start()
        there.close()
        connections.append(here)
        processes.append(process)
    try:
        asked = connections[: size - dying]
        results: list[Any] = [each.recv() if each.poll(max(TIMEOUT, timeout)) else "no answer" for each in asked]
    finally:
        for process in processes:
            process.kill()
            process.join()
    errors = [result for result in results if isinstance(result, str)]
    assert not errors, "\n".join(errors)
    return [value for (value,) in results]


def _run(
    connection: Connection,
    rank: int,
    size: int,
    port: int,
    timeout: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ |= {STORE: str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    multiprocessing.current_process().daemon = False  # it may start workers
    try:
        group = LearnerGroup(LearnerRank(rank, size, rank, size), TIMEOUT)  # loading torch may take long in one of them
        group.timeout = timeout
        connection.send((function(group, *arguments),))
    except BaseException:
        connection.send(traceback.format_exc())
    connection.poll(None)  # until the parent has all results and ends this process
