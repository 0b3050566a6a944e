"""Saves and restores the state of all workers and untaken unrolls, so that a lockstep run continues exactly."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from processes.messages import Kind
from processes.pool import ChildPool, Member
from workers.round_queue import RoundQueue

POLL_SECONDS = 0.1

ProcessKey = tuple[int, int]  # a worker, and how many processes it has had before


class LockstepSnapshot:
    """Collects a snapshot of each worker and the unrolls that the learner has not taken.

    `exchange(seconds)` receives messages for up to so many seconds, and passes snapshots to `received`. After
    `restore`, each worker gets its snapshot when it has made its environments, and does not play before.
    """

    def __init__(
        self, children: ChildPool, workers: Sequence[Member], rounds: RoundQueue, exchange: Callable[[float], None]
    ) -> None:
        self._children = children
        self._workers = workers
        self._rounds = rounds
        self._exchange = exchange
        self._snapshots: dict[int, dict[str, Any]] = {}  # by worker
        self._kept: dict[int, dict[str, Any]] = {}  # of workers that have delivered nothing since `restore`
        self._asked: set[ProcessKey] = set()  # processes whose workers are to be restored
        self._restored: set[ProcessKey] = set()  # those that were sent their snapshot

    def may_play(self, worker: int) -> bool:
        """Whether a worker has what it shall continue from, if anything."""
        return worker not in self._kept or self._process(worker) in self._restored

    def ask(self) -> None:
        """Ask the workers that must be restored for a snapshot. Call it before each exchange.

        A worker that answers has made its environments and waits, so that sending its own snapshot does not block.
        Those that are replaced before they have played are asked again.
        """
        for worker in self._kept:
            process = self._process(worker)
            if process not in self._asked and self._workers[worker].child is not None:
                self._asked.add(process)
                self._children.request(self._workers[worker], Kind.SNAPSHOT_REQUEST)

    def received(self, worker: int, snapshot: dict[str, Any]) -> None:
        if self.may_play(worker):
            self._snapshots[worker] = snapshot
        elif (child := self._workers[worker].child) is not None:  # it has not ended since
            self._restored.add(self._process(worker))
            child.send(Kind.SNAPSHOT, payload=self._kept[worker])

    def delivered(self, worker: int) -> None:
        """A worker has played a round."""
        self._kept.pop(worker, None)

    def save(self, deadline: float, give_up: Callable[[], bool]) -> dict[str, Any] | None:
        """The snapshot, in plain values and tensors, once all workers have finished their round.

        None if a worker does not finish before the deadline, if one is lost meanwhile, or if `give_up` is true.
        """

        def is_too_late() -> bool:
            return give_up() or time.monotonic() > deadline

        workers = len(self._workers)
        while not self._rounds.workers_pause or any(worker.child is None for worker in self._workers):
            if is_too_late():
                return None
            self._exchange(POLL_SECONDS)
        restarts = self._children.restarts
        self._snapshots = dict(self._kept)
        for worker in range(workers):
            if worker not in self._kept:
                self._children.request(self._workers[worker], Kind.SNAPSHOT_REQUEST)
        while True:
            self._exchange(POLL_SECONDS)
            if self._children.restarts > restarts:
                return None
            if len(self._snapshots) == workers:
                break
            if is_too_late():
                return None
        snapshots = [self._snapshots[worker] for worker in range(workers)]
        return {"snapshots": snapshots, "unrolls": torch.from_numpy(self._rounds.untaken_unrolls())}

    def restore(self, content: dict[str, Any]) -> None:
        """Continue from what `save` returned in another run, before any worker plays."""
        self._kept = dict(enumerate(content["snapshots"]))
        self._rounds.restore_untaken(content["unrolls"].numpy())

    def _process(self, worker: int) -> ProcessKey:
        return worker, self._workers[worker].history.starts
