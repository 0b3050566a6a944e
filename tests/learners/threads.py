"""Several learners of a test as threads of this process: what they decide together, without their connection."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import torch

from learners.group import LearnerLostError
from learners.rank import LearnerRank


class ThreadGroup:
    """In place of a LearnerGroup. `said` is what each learner has said, one thing after another; all see it."""

    lost = another_lost = False
    guarded = nullcontext

    def __init__(self, said: list[list[Any]], rank: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = LearnerRank(rank, len(said), rank, len(said)), len(said), timeout
        self._said = said

    def of_all(self, value: Any) -> Any:
        exchange = self.send(value)
        while (found := exchange.messages()) is None:
            time.sleep(0.001)
        return found

    def rows_of_all(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.of_all(rows))

    def from_first(self, value: Any) -> Any:
        return self.of_all(value)[0]

    def send(self, message: Any) -> "ThreadExchange":
        own = self._said[self.rank.index]
        own.append(message)
        return ThreadExchange(self._said, len(own) - 1, time.monotonic() + self.timeout)


class ThreadExchange:
    def __init__(self, said: list[list[Any]], turn: int, deadline: float) -> None:
        self._said, self._turn, self._deadline = said, turn, deadline

    def messages(self) -> list[Any] | None:
        if all(len(each) > self._turn for each in self._said):
            return [each[self._turn] for each in self._said]
        if time.monotonic() > self._deadline:
            raise LearnerLostError("another learner has not responded")
        return None


def run_threads(function: Callable[..., Any], *arguments: Any, size: int = 2, timeout: float = 60.0) -> list[Any]:
    """`function(group, *arguments)` in each of `size` threads; returns what it returns in each of them."""
    said: list[list[Any]] = [[] for _ in range(size)]
    with ThreadPoolExecutor(size) as threads:
        futures = [threads.submit(function, ThreadGroup(said, rank, timeout), *arguments) for rank in range(size)]
        return [future.result() for future in futures]
