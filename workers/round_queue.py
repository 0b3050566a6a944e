"""The slots of all workers: which slot is filled next, and which filled slot the learner takes next."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.row_layout import Rows
from workers.flow_control import FlowControl, WorkerSlot

ACTIVE_GAMES = 256  # at least so many games take turns, if there are as many


class RoundQueue:
    """Each slot is idle, is being filled by its worker, or holds a round that the learner has not taken yet.

    `rows` are the slots `[worker, slot, environment, nbytes]`. A slot holds one unroll of each of a worker's
    environments, over the same T steps. It belongs to the worker from the moment it is handed out until it is filled.
    """

    def __init__(self, rows: NDArray[np.uint8], flow_control: FlowControl) -> None:
        self._rows = rows
        self.flow_control = flow_control
        workers, slots, self._environments, _ = rows.shape
        self.workers = int(workers)
        self._slot_total = int(workers * slots)
        # In the order in which slots are handed out: first one slot of each worker, then the second ones.
        self._idle: deque[WorkerSlot] = deque((worker, slot) for slot in range(slots) for worker in range(workers))
        self._filling: list[set[int]] = [set() for _ in range(workers)]
        self._delivered: deque[WorkerSlot] = deque()  # in the order in which they are taken
        self._taken = 0  # unrolls that were taken from the first delivered slot

    @property
    def in_flight(self) -> int:
        """Rounds that are being played, or that are delivered and not taken completely."""
        return self._slot_total - len(self._idle)

    @property
    def ready(self) -> int:
        """Delivered rounds that are not taken completely."""
        return len(self._delivered)

    @property
    def workers_pause(self) -> bool:
        """Whether no worker plays or may play."""
        return not self.flow_control.limit

    def hand_out(self, is_running: Callable[[int], bool]) -> list[WorkerSlot]:
        """The slots that workers may fill now, as many as the limit allows; slots of lost workers stay idle.

        Where there are many more workers than the learner needs, the first of them play all rounds: if all took turns,
        each game would hardly go on.
        """
        limit = self.flow_control.limit
        allowed = limit - self.in_flight
        if allowed <= 0:
            return []
        active = max(limit + 1, math.ceil(ACTIVE_GAMES / self._environments))
        running = [slot for slot in self._idle if is_running(slot[0])]
        handed_out = sorted(running, key=lambda slot: slot[0] >= active)[:allowed]
        for worker, slot in handed_out:
            self._idle.remove((worker, slot))
            self._filling[worker].add(slot)
        return handed_out

    def deliver(self, worker: int, slot: int) -> None:
        """A worker has filled a slot."""
        self._filling[worker].remove(slot)
        self._delivered.extend(self.flow_control.deliver((worker, slot)))

    def take_back(self, worker: int) -> None:
        """The worker's process has ended: the slots that it was filling are idle again."""
        self._idle.extend((worker, slot) for slot in sorted(self._filling[worker]))
        self._filling[worker].clear()

    def next_unroll(self) -> Rows:
        """The oldest delivered unroll `[nbytes]`, a view into shared memory."""
        worker, slot = self._delivered[0]
        if not self._taken:
            self.flow_control.learner_starts_round()
        unroll: Rows = self._rows[worker, slot, self._taken]
        return unroll

    def unroll_taken(self) -> bool:
        """Go on to the next unroll. Return whether the slot of this one is idle now."""
        self._taken += 1
        self.flow_control.unrolls_taken(self._taken, self._environments)
        if self._taken < self._environments:
            return False
        self._idle.append(self._delivered.popleft())
        self._taken = 0
        return True

    def untaken_unrolls(self) -> Rows:
        """A copy of all delivered unrolls that were not taken: `[n, nbytes]`, in order."""
        rounds = [self._rows[worker, slot] for worker, slot in self._delivered]
        empty: NDArray[Any] = np.empty((0, self._rows.shape[-1]), np.uint8)
        return np.concatenate([empty, *rounds])[self._taken :]

    def restore_untaken(self, unrolls: Rows) -> None:
        """Deliver unrolls `[n, nbytes]` that `untaken_unrolls` of a lockstep run returned; before the first hand-out.

        They are the last n unrolls of a round of all workers.
        """
        if not len(unrolls):
            return
        first = self.workers * self._environments - len(unrolls)
        first_worker, self._taken = divmod(first, self._environments)
        self._rows.reshape(-1, self._rows.shape[-1])[first:] = unrolls
        for worker in range(first_worker, self.workers):
            self._idle.remove((worker, 0))
            self._delivered.append((worker, 0))
