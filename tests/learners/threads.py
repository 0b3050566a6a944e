"""Several learners of a test as threads of this process: what they decide together, without their connection."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Condition
from typing import Any

import torch

from learners.group import LearnerLostError
from learners.rank import LearnerRank


class Table:
    """Where all learners put down what they say, one thing after another."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = Condition()
        self._said: list[dict[int, Any]] = []

    def put(self, turn: int, rank: int, value: Any) -> None:
        with self.changed:
            while len(self._said) <= turn:
                self._said.append({})
            self._said[turn][rank] = value
            self.changed.notify_all()

    def of_all(self, turn: int) -> list[Any] | None:
        said = self._said[turn]
        return [said[rank] for rank in range(self.size)] if len(said) == self.size else None


class ThreadGroup:
    """In place of a LearnerGroup."""

    lost = another_lost = False

    def __init__(self, table: Table, rank: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = LearnerRank(rank, table.size, rank, table.size), table.size, timeout
        self.guarded = nullcontext
        self._table = table
        self._turn = -1

    def of_all(self, value: Any) -> Any:
        exchange = self.send(value)
        with self._table.changed:
            assert self._table.changed.wait_for(lambda: exchange.messages() is not None, 60)
        return exchange.messages()

    def from_first(self, value: Any) -> Any:
        return self.of_all(value)[0]

    def send(self, message: Any) -> "ThreadExchange":
        self._turn += 1
        self._table.put(self._turn, self.rank.index, message)
        return ThreadExchange(self._table, self._turn, self.timeout)


class ThreadExchange:
    def __init__(self, table: Table, turn: int, timeout: float) -> None:
        self._table, self._turn = table, turn
        self._deadline = time.monotonic() + timeout

    def messages(self) -> Sequence[torch.Tensor] | None:
        found = self._table.of_all(self._turn)
        if found is None and time.monotonic() > self._deadline:
            raise LearnerLostError("another learner has not responded")
        return found


def run_threads(function: Callable[..., Any], *arguments: Any, size: int = 2, timeout: float = 60.0) -> list[Any]:
    """`function(group, *arguments)` in each of `size` threads; returns what it returns in each of them."""
    table = Table(size)
    with ThreadPoolExecutor(size) as threads:
        futures = [threads.submit(function, ThreadGroup(table, rank, timeout), *arguments) for rank in range(size)]
        return [future.result() for future in futures]
