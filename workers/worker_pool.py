"""The worker processes, as the training loop uses them: a source of unrolls that replaces lost workers."""

import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from replay.row_layout import Rows
from workers.flow_control import FlowControl, Lockstep, PlayOnDemand
from workers.inference.server import InferenceServer
from workers.lockstep_snapshot import LockstepSnapshot
from workers.memory.slots import Slots
from workers.messages import Kind, Message
from workers.processes.child_process import start_process
from workers.round_queue import RoundQueue
from workers.supervisor import Supervisor
from workers.worker import Worker


class WorkerPool:
    """Starts the workers and delivers their unrolls.

    The training loop needs `wait` and `take`. A supervisor runs the processes, a round queue hands out slots and keeps
    filled ones, and in lockstep a snapshot can be taken of all workers.
    """

    def __init__(
        self,
        make_worker: Callable[[int, int], Worker],  # (index, restart_index) → worker
        slots: Slots,
        announce: Callable[[str], None],
        *,
        lockstep: bool,
        silence_limit: float,  # seconds without an answer after which a worker is replaced
        restart_budget: int,  # deaths within ten minutes that are accepted
        server: InferenceServer | None = None,
        flow_control: FlowControl | None = None,  # None: lockstep, or play on demand
        clock: Callable[[], float] = time.monotonic,
        start: Callable[..., tuple[BaseProcess, Connection]] = start_process,
    ) -> None:
        workers, slots_each, *_ = slots.rows.shape
        if flow_control is None:
            flow_control = Lockstep(workers) if lockstep else PlayOnDemand(workers * slots_each)
        self._rounds = RoundQueue(slots.rows, flow_control)
        self._supervisor = Supervisor(
            workers,
            make_worker,
            server,
            self._received,
            self._rounds.take_back,
            announce,
            silence_limit=silence_limit,
            restart_budget=restart_budget,
            clock=clock,
            start=start,
        )
        self._snapshot = LockstepSnapshot(self._supervisor, self._rounds, self._exchange)
        self._announce = announce
        self.failed_resets = 0  # of environments; each was tried again

    @property
    def size(self) -> int:
        return self._supervisor.size

    @property
    def alive(self) -> int:
        """Workers whose process runs."""
        return self._supervisor.alive

    @property
    def restarts(self) -> int:
        """Replacements of workers and of the inference server."""
        return self._supervisor.restarts

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
        return self._supervisor.process_ids()

    def wait(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Receive what workers send; wait up to `timeout` seconds for it if no unroll is ready.

        The wait also ends when one of `others`, pipes and sentinels, is ready. Lost workers are replaced. Raises
        WorkersFailedError after too many failures.
        """
        if not self._rounds.ready:
            self._exchange(0.0)  # messages that came while the learner was busy
        if not self._rounds.ready:
            self._rounds.nothing_delivered(learner_waits=timeout > 0)
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
        """Lockstep only: the state of all workers, and the unrolls that are not taken.

        None if the workers do not finish their round before the deadline (of `time.monotonic`), or if `give_up`.
        """
        return self._snapshot.save(deadline, give_up)

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Lockstep only, before the first `wait`: continue from a snapshot."""
        self._snapshot.restore(snapshot)

    def close(self) -> None:
        self._supervisor.close()

    def _exchange(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Send slots to workers and receive messages for up to `timeout` seconds."""
        self._snapshot.ask()
        self._hand_out_slots()
        self._supervisor.poll(timeout, others)

    def _hand_out_slots(self) -> None:
        for worker, slot in self._rounds.hand_out(self._may_play):
            self._supervisor.request(worker, Kind.SLOT_FREE, slot)

    def _may_play(self, worker: int) -> bool:
        return self._supervisor.is_running(worker) and self._snapshot.may_play(worker)

    def _received(self, worker: int, message: Message) -> None:
        if message.kind == Kind.SLOT_FILLED:
            self._rounds.deliver(worker, message.index)
            self._snapshot.delivered(worker)
        elif message.kind == Kind.FAILED_RESETS:
            if not self.failed_resets:
                how = "tried a reset again that had failed; failed_resets in the metrics counts them"
                self._announce(f"worker {worker} {how}:\n{message.payload}")
            self.failed_resets += message.index
        else:
            self._snapshot.received(worker, message.payload)
