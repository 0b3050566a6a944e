"""The worker processes, as the training loop uses them: a source of unrolls that replaces lost workers."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from processes.child import Work
from processes.messages import Kind, Message
from processes.pool import ChildPool, Ended, Member
from replay.row_layout import Rows
from workers.flow_control import FlowControl, WorkerSlot

POLL_SECONDS = 0.1  # between two looks whether a snapshot shall be given up
ACTIVE_GAMES = 256  # at least so many games take turns, if there are as many

# From what a worker process has of its own: index, restart index, pipe to the inference server, and snapshot.
MakeWorker = Callable[[int, int, Connection | None, dict[str, Any] | None], Work]


class WorkerPool:
    """Starts the workers and delivers their unrolls.

    The training loop needs `wait` and `take`. A pool of child processes runs the workers and the inference server,
    which starts before them and is replaced together with all of them.

    `slots` is the memory that it shares with them, `[worker, slot, environment, nbytes]`. A slot holds a round: one
    unroll of each of a worker's environments, over the same T steps. Each slot is idle, is being filled by its worker,
    or holds a round that the learner has not taken completely. It belongs to the worker while it is being filled.

    In lockstep, `snapshot` saves the state of all workers, and the unrolls that are not taken, and another pool
    continues from that. Its workers get their part when they start, also those that are replaced before they have
    played.
    """

    def __init__(
        self,
        children: ChildPool,
        make_worker: MakeWorker,
        slots: Rows,
        flow_control: FlowControl,
        make_server: Callable[[Sequence[Connection]], Work] | None = None,  # from a pipe to each worker
        snapshot: dict[str, Any] | None = None,
    ) -> None:
        self.children = children  # the inference server, if there is one, and the workers
        self._make_worker = make_worker
        self._slots = slots
        self._flow_control = flow_control
        workers, slots_each, self._environments, _ = slots.shape
        # In the order in which slots are handed out: first one slot of each worker, then the second ones.
        self._idle: deque[WorkerSlot] = deque((worker, slot) for slot in range(slots_each) for worker in range(workers))
        self._filling: list[set[int]] = [set() for _ in range(workers)]
        self._delivered: deque[WorkerSlot] = deque()  # in the order in which they are taken
        self._taken = 0  # unrolls that were taken from the first delivered slot
        self._server: Member | None = None
        self._server_pipes: list[Connection] = []  # from each worker to the server, of all processes in its place
        if make_server is not None:
            self._server = Member("the inference server", partial(self._make_server, make_server), -1, owes_at_start=1)
        self._workers = [
            Member(f"worker {index}", partial(self._make, index), index, needs=self._server) for index in range(workers)
        ]
        self._continued: dict[int, dict[str, Any]] = {}  # of workers that have not played since: their parts
        if snapshot is not None:
            self._continued = dict(enumerate(snapshot["snapshots"]))
            self._restore_untaken(snapshot["unrolls"].numpy())
        self._answers: dict[int, dict[str, Any]] = {}  # the parts of a snapshot, by worker
        self.failed_resets = 0  # of environments; each was tried again
        for member in [*([] if self._server is None else [self._server]), *self._workers]:
            children.add(member)

    @property
    def size(self) -> int:
        return len(self._workers)

    @property
    def alive(self) -> int:
        """Workers whose process runs."""
        return sum(worker.child is not None for worker in self._workers)

    @property
    def rounds_under_way(self) -> int:
        """Rounds that are being played, or that are delivered and not taken completely."""
        workers, slots_each, *_ = self._slots.shape
        return int(workers * slots_each) - len(self._idle)

    @property
    def rounds_ready(self) -> int:
        """Delivered rounds that are not taken completely."""
        return len(self._delivered)

    def wait(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Receive what workers send; wait up to `timeout` seconds for it if no unroll is ready.

        The wait also ends when one of `others`, pipes and pools, is ready. Lost workers are replaced. Raises
        WorkersFailedError after too many failures.
        """
        if not self._delivered:
            self._exchange(0.0)  # messages that came while the learner was busy
        if not self._delivered:
            self._flow_control.nothing_delivered(learner_waits=timeout > 0)
        self._exchange(0.0 if self._delivered else timeout, others)

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` delivered unrolls `[nbytes]`, oldest first.

        Each is a view into shared memory that is valid until the next one is taken.
        """
        for _ in range(limit):
            if not self._delivered:
                return
            worker, slot = self._delivered[0]
            yield self._slots[worker, slot, self._taken]
            self._taken += 1
            self._flow_control.unrolls_taken(self._taken, self._environments)
            if self._taken == self._environments:
                self._idle.append(self._delivered.popleft())
                self._taken = 0
                self._hand_out_slots()

    def snapshot(self, give_up: Callable[[], bool]) -> dict[str, Any] | None:
        """Lockstep only: the state of all workers, in plain values, and the unrolls that are not taken.

        None if `give_up` says so before the workers have finished their round, or if one is lost meanwhile.
        """
        while self._flow_control.limit or self.alive < self.size:
            if give_up():
                return None
            self._exchange(POLL_SECONDS)
        restarts = self.children.restarts
        self._answers = dict(self._continued)
        for worker in self._workers:
            if worker.index not in self._continued:
                self.children.request(worker, Kind.SNAPSHOT_REQUEST)
        while len(self._answers) < self.size:
            self._exchange(POLL_SECONDS)
            if self.children.restarts > restarts or (len(self._answers) < self.size and give_up()):
                return None
        rounds = [self._slots[worker, slot] for worker, slot in self._delivered]
        empty = np.empty((0, self._slots.shape[-1]), np.uint8)
        unrolls = torch.from_numpy(np.concatenate([empty, *rounds])[self._taken :])
        return {"snapshots": [self._answers[worker] for worker in range(self.size)], "unrolls": unrolls}

    def _restore_untaken(self, unrolls: Rows) -> None:
        """Deliver the unrolls `[n, nbytes]` of a snapshot: the last n of a round of all workers."""
        if not len(unrolls):
            return
        first = self.size * self._environments - len(unrolls)
        first_worker, self._taken = divmod(first, self._environments)
        self._slots.reshape(-1, self._slots.shape[-1])[first:] = unrolls
        for worker in range(first_worker, self.size):
            self._idle.remove((worker, 0))
            self._delivered.append((worker, 0))

    def close(self) -> None:
        """End all processes; they hold nothing that could be lost."""
        self.children.close()
        for pipe in self._server_pipes:
            pipe.close()

    def _make_server(self, make_server: Callable[[Sequence[Connection]], Work], starts: int) -> Work:
        for pipe in self._server_pipes:
            pipe.close()
        ends = [Pipe() for _ in self._workers]
        self._server_pipes = [worker_end for worker_end, _ in ends]
        return make_server([server_end for _, server_end in ends])

    def _make(self, index: int, restart_index: int) -> Work:
        pipe = None if self._server is None else Connection(os.dup(self._server_pipes[index].fileno()))
        return self._make_worker(index, restart_index, pipe, self._continued.get(index))

    def _exchange(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Send slots to workers and receive messages for up to `timeout` seconds."""
        self._hand_out_slots()
        for member, event in self.children.poll(timeout, others):
            if isinstance(event, Ended):
                if member is not self._server:
                    filling = self._filling[member.index]
                    self._idle.extend((member.index, slot) for slot in sorted(filling))
                    filling.clear()
                self.children.replace(member, event)
            else:
                self._received(member, event)

    def _hand_out_slots(self) -> None:
        """Let workers fill as many slots as the limit allows; those of lost workers stay idle.

        Where there are many more workers than the learner needs, the first of them play all rounds: if all took turns,
        each game would hardly go on.
        """
        limit = self._flow_control.limit
        allowed = limit - self.rounds_under_way
        if allowed <= 0:
            return
        active = max(limit + 1, math.ceil(ACTIVE_GAMES / self._environments))
        running = [place for place in self._idle if self._workers[place[0]].child is not None]
        for worker, slot in sorted(running, key=lambda place: place[0] >= active)[:allowed]:
            self._idle.remove((worker, slot))
            self._filling[worker].add(slot)
            self.children.request(self._workers[worker], Kind.SLOT_FREE, slot)

    def _received(self, member: Member, message: Message) -> None:
        if message.kind == Kind.HEARTBEAT:
            if message.index:  # of a server that has returned a result
                member.failures = 0
            return
        if message.kind == Kind.FAILED_RESETS:
            if not self.failed_resets:
                how = "tried a reset again that had failed; failed_resets in the metrics counts them"
                self.children.announce(f"{member.name} {how}:\n{message.payload}")
            self.failed_resets += message.index
            return
        member.owes -= 1
        if message.kind == Kind.SLOT_FILLED:
            member.failures = 0
            self._continued.pop(member.index, None)
            self._filling[member.index].remove(message.index)
            self._delivered.extend(self._flow_control.deliver((member.index, message.index)))
        else:
            self._answers[member.index] = message.payload
