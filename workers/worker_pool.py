"""The worker processes, as the training loop uses them: a source of unrolls that replaces lost workers."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from processes.child import Work
from processes.messages import Kind, Message
from processes.pool import ChildPool, Ended, Member
from replay.row_layout import Rows
from workers.inference.server import InferenceServer, connect_worker
from workers.round_queue import RoundQueue
from workers.worker import Place

POLL_SECONDS = 0.1  # between two looks whether a snapshot shall be given up


class WorkerPool:
    """Starts the workers and delivers their unrolls.

    The training loop needs `wait` and `take`. A pool of child processes runs the workers and the inference server,
    which starts before them and is replaced together with all of them. `rounds` hands out slots and keeps filled ones.

    In lockstep, `snapshot` saves the state of all workers, and the unrolls that are not taken, and another pool
    continues from that. Its workers get their part when they start, also those that are replaced before they have
    played.
    """

    def __init__(
        self,
        children: ChildPool,
        make_worker: Callable[[Place], Work],
        rounds: RoundQueue,
        server: InferenceServer | None = None,
        snapshot: dict[str, Any] | None = None,
    ) -> None:
        self._children = children
        self._make_worker = make_worker
        self._rounds = rounds
        self._server: Member | None = None
        if server is not None:
            self._server = Member("the inference server", lambda starts: server, index=-1, owes_at_start=1)
        self._workers = [
            Member(f"worker {index}", partial(self._make, index), index, needs=self._server)
            for index in range(rounds.workers)
        ]
        self._continued: dict[int, dict[str, Any]] = {}  # of workers that have not played since: their parts
        if snapshot is not None:
            self._continued = dict(enumerate(snapshot["snapshots"]))
            rounds.restore_untaken(snapshot["unrolls"].numpy())
        self._answers: dict[int, dict[str, Any]] = {}  # the parts of a snapshot, by worker
        self.failed_resets = 0  # of environments; each was tried again
        try:
            for member in [*([] if self._server is None else [self._server]), *self._workers]:
                children.add(member)
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        return len(self._workers)

    @property
    def alive(self) -> int:
        """Workers whose process runs."""
        return sum(worker.child is not None for worker in self._workers)

    @property
    def restarts(self) -> int:
        """Replacements of workers and of the inference server."""
        return self._children.restarts

    @property
    def rounds_under_way(self) -> int:
        """Rounds that are being played, or that are delivered and not taken completely."""
        return self._rounds.in_flight

    @property
    def rounds_ready(self) -> int:
        """Delivered rounds that are not taken completely."""
        return self._rounds.ready

    def process_ids(self) -> list[int]:
        """The ids of the inference server, if there is one, and of the workers."""
        return self._children.process_ids()

    def fileno(self) -> int:
        """For a wait for several things: ready when `wait` would receive something."""
        return self._children.fileno()

    def wait(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Receive what workers send; wait up to `timeout` seconds for it if no unroll is ready.

        The wait also ends when one of `others`, pipes and pools, is ready. Lost workers are replaced. Raises
        WorkersFailedError after too many failures.
        """
        if not self._rounds.ready:
            self._exchange(0.0)  # messages that came while the learner was busy
        if not self._rounds.ready:
            self._rounds.flow_control.nothing_delivered(learner_waits=timeout > 0)
        self._exchange(0.0 if self._rounds.ready else timeout, others)

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` delivered unrolls `[nbytes]`, oldest first.

        Each is a view into shared memory that is valid until the next one is taken.
        """
        for _ in range(limit):
            if not self._rounds.ready:
                return
            yield self._rounds.next_unroll()
            if self._rounds.unroll_taken():
                self._hand_out_slots()

    def snapshot(self, deadline: float, give_up: Callable[[], bool] = lambda: False) -> dict[str, Any] | None:
        """Lockstep only: the state of all workers, in plain values, and the unrolls that are not taken.

        None if the workers do not finish their round before the deadline (of `time.monotonic`), if one is lost
        meanwhile, or if `give_up`.
        """

        def is_too_late() -> bool:
            return give_up() or time.monotonic() > deadline

        while not self._rounds.workers_pause or self.alive < self.size:
            if is_too_late():
                return None
            self._exchange(POLL_SECONDS)
        restarts = self.restarts
        self._answers = dict(self._continued)
        for worker in self._workers:
            if worker.index not in self._continued:
                self._children.request(worker, Kind.SNAPSHOT_REQUEST)
        while len(self._answers) < self.size:
            self._exchange(POLL_SECONDS)
            if self.restarts > restarts or (len(self._answers) < self.size and is_too_late()):
                return None
        unrolls = torch.from_numpy(self._rounds.untaken_unrolls())
        return {"snapshots": [self._answers[worker] for worker in range(self.size)], "unrolls": unrolls}

    def close(self) -> None:
        """End all processes; they hold nothing that could be lost."""
        self._children.close()

    def _make(self, index: int, restart_index: int) -> Work:
        pipe: Connection | None = None
        if self._server is not None:
            assert self._server.child is not None
            pipe = connect_worker(self._server.child.connection, index)
        return self._make_worker(Place(index, restart_index, pipe, self._continued.get(index)))

    def _exchange(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Send slots to workers and receive messages for up to `timeout` seconds."""
        self._hand_out_slots()
        for member, event in self._children.poll(timeout, others):
            if isinstance(event, Ended):
                if member is not self._server:
                    self._rounds.take_back(member.index)
                self._children.replace(member, event)
            else:
                self._received(member, event)

    def _hand_out_slots(self) -> None:
        for worker, slot in self._rounds.hand_out(lambda worker: self._workers[worker].child is not None):
            self._children.request(self._workers[worker], Kind.SLOT_FREE, slot)

    def _received(self, member: Member, message: Message) -> None:
        if message.kind == Kind.HEARTBEAT:
            if message.index:  # of a server that has returned a result
                member.failures = 0
            return
        if message.kind == Kind.FAILED_RESETS:
            if not self.failed_resets:
                how = "tried a reset again that had failed; failed_resets in the metrics counts them"
                self._children.announce(f"{member.name} {how}:\n{message.payload}")
            self.failed_resets += message.index
            return
        member.owes -= 1
        if message.kind == Kind.SLOT_FILLED:
            member.failures = 0
            self._continued.pop(member.index, None)
            self._rounds.deliver(member.index, message.index)
        else:
            self._answers[member.index] = message.payload
