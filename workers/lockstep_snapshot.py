"""Saves and restores the state of all workers and untaken unrolls, so that a lockstep run continues exactly."""

import time
from collections.abc import Callable
from typing import Any

import torch

from workers.messages import Kind
from workers.round_queue import RoundQueue
from workers.supervisor import Supervisor

POLL_SECONDS = 0.1


class LockstepSnapshot:
    """Collects a snapshot of each worker and the unrolls that the learner has not taken.

    `exchange(seconds)` receives messages for up to so many seconds, and passes snapshots to `received`.
    """

    def __init__(self, supervisor: Supervisor, rounds: RoundQueue, exchange: Callable[[float], None]) -> None:
        self._supervisor = supervisor
        self._rounds = rounds
        self._exchange = exchange
        self._snapshots: dict[int, dict[str, Any]] = {}  # by worker

    def received(self, worker: int, snapshot: dict[str, Any]) -> None:
        self._snapshots[worker] = snapshot

    def save(self, deadline: float, give_up: Callable[[], bool]) -> dict[str, Any] | None:
        """The snapshot, in plain values and tensors, once all workers have finished their round.

        None if a worker does not finish before the deadline, if one is lost meanwhile, or if `give_up` is true.
        """

        def is_too_late() -> bool:
            return give_up() or time.monotonic() > deadline

        workers = self._supervisor.size
        while not self._rounds.workers_pause or self._supervisor.alive < workers:
            if is_too_late():
                return None
            self._exchange(POLL_SECONDS)
        restarts = self._supervisor.restarts
        self._snapshots.clear()
        for worker in range(workers):
            self._supervisor.request(worker, Kind.SNAPSHOT_REQUEST)
        while True:
            self._exchange(POLL_SECONDS)
            if self._supervisor.restarts > restarts:
                return None
            if len(self._snapshots) == workers:
                break
            if is_too_late():
                return None
        snapshots = [self._snapshots[worker] for worker in range(workers)]
        return {"snapshots": snapshots, "unrolls": torch.from_numpy(self._rounds.untaken_unrolls())}

    def restore(self, content: dict[str, Any]) -> None:
        """Continue from what `save` returned in another run, before any worker plays."""
        for worker, snapshot in enumerate(content["snapshots"]):
            self._supervisor.send(worker, Kind.SNAPSHOT, payload=snapshot)
        self._rounds.restore_untaken(content["unrolls"].numpy())
