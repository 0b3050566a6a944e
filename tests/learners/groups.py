"""Several learners of a test, each in a process of its own."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from learners.group import LearnerGroup
from learners.rank import STORE, LearnerRank
from processes.child import start_child
from processes.fork_server import ForkServer
from processes.messages import Kind, receive, send

TIMEOUT = 120.0
SERVER = ForkServer(["tests.learners.loaded"])  # of all tests


@dataclass
class LearnerOfTest:
    """What one of the processes does."""

    rank: LearnerRank
    store: str
    timeout: float
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self, connection: Connection) -> None:
        os.environ[STORE] = self.store
        torch.set_num_threads(1)
        group = LearnerGroup(self.rank, TIMEOUT)  # on a busy machine, one of them may start late
        group.timeout = self.timeout
        send(connection, Kind.RESULT, payload=self.function(group, *self.arguments))
        receive(connection)  # raises EOFError when the parent has all results


def run_group(
    function: Callable[..., Any], *arguments: Any, size: int = 2, timeout: float = TIMEOUT, dying: int = 0
) -> list[Any]:
    """`function(group, *arguments)` in each of `size` connected processes; returns what it returns in each of them.

    `timeout` is that of the group. The last `dying` learners give no answer.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    children = []
    try:
        for rank in range(size):
            place = LearnerRank(rank, size, rank, size)
            learner = LearnerOfTest(place, str(store.port), timeout, function, arguments)
            children.append(start_child(learner, f"learner {rank}", launch=SERVER))
        answers = []
        for child in children[: size - dying]:
            assert child.connection.poll(max(TIMEOUT, timeout)), "no answer"
            answers.append(receive(child.connection).payload)
        return answers
    finally:
        for child in children:
            child.end()
