"""A worker process that plays in real time. It never waits for the learner."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from machine.system_settings import use_one_thread
from processes.inside import HEARTBEAT_SECONDS, Heartbeat, beat
from processes.messages import Kind, receive, send
from replay.row_layout import Rows
from workers.random_streams import stream_of
from workers.realtime.requirements import latency_model
from workers.realtime.session import RealtimeSession, RealtimeSetup
from workers.realtime.unrolls import RealtimeUnrolls
from workers.worker import Worker
from workers.worker_clock import REST, WorkerClock


@dataclass(frozen=True)
class RealtimeWorker(Worker):
    """Like `Worker`, but it plays by the clock, and delivers its unrolls when they are complete."""

    inference_processes: int = 1

    def run(self, connection: Connection) -> None:
        use_one_thread()
        clock = WorkerClock(self.times.seconds[self.index])
        environments = self._make_environments(Heartbeat(connection), connection)
        unrolls = RealtimeUnrolls(
            self.layout,
            self.config.environment,
            [each.environment_id for each in environments],
            [each.take_finished_games for each in environments],
        )
        setup = RealtimeSetup(
            environment=self.config.environment,
            realtime=self.config.realtime,
            network=self.config.network,
            layout=self.layout,
            compute_dtype=self.compute_dtype,
            weights=self.weights,
            latency=latency_model(self.config.realtime),
            processes=self.inference_processes,
            timeout=self.config.workers.worker_timeout,
            seed=stream_of("latency", self.seed, self.index, self.resume_count, self.restart_index),
        )
        most = 1 + self.inference_processes // self.layout.unroll_length
        delivery = Delivery(self, connection, most, unrolls.dropped)
        heartbeat_at = 0.0
        seats = [each.env for each in environments]
        uniforms = [each.uniforms for each in environments]
        with RealtimeSession(setup, seats, uniforms, unrolls, connection, stopwatch=clock) as session:
            for game in range(len(seats)):
                session.games.start(game)
            while True:
                if session.step(HEARTBEAT_SECONDS):
                    delivery.slot_free(receive(connection).index)
                rows = unrolls.take()
                if rows is not None:
                    delivery.add(rows)
                now = time.monotonic()
                if now >= heartbeat_at:
                    heartbeat_at = now + HEARTBEAT_SECONDS
                    beat(connection)  # decisions may take longer than the learner waits for an answer
                    clock.add_cpu(session.inference.take_cpu_seconds())
                    clock.share()
                clock.lap(REST)


class Delivery:
    """Writes complete unrolls to free slots. The games go on while there is none, so at most `most` rounds wait.

    When there is one more, the oldest is dropped and counted. Rounds become complete in their order, so those that
    follow a slow decision do so all at once: `most` is 1, and as many as there can be of these.
    """

    def __init__(self, worker: Worker, learner: Connection, most: int, dropped: Callable[[Rows], None]) -> None:
        """`dropped` is called with the unrolls that are dropped."""
        self._report_dropped = dropped
        self._worker = worker
        self._learner = learner
        self._most = most
        self._free: deque[int] = deque()
        self._waiting: deque[Rows] = deque()
        self._dropped = 0  # rounds since the latest one that was delivered

    def add(self, rows: Rows) -> None:
        """Deliver unrolls [E, nbytes], or keep them until there is a slot."""
        self._waiting.append(rows)
        self._deliver()
        if len(self._waiting) > self._most:
            self._report_dropped(self._waiting.popleft())
            self._dropped += 1

    def slot_free(self, slot: int) -> None:
        """The learner has taken all unrolls of a slot."""
        self._free.append(slot)
        self._deliver()

    def _deliver(self) -> None:
        while self._waiting and self._free:
            rows, slot = self._waiting.popleft(), self._free.popleft()
            self._worker.layout.array(rows, "dropped_unrolls")[:] = self._dropped
            self._worker.slots.rows[self._worker.index, slot] = rows
            self._dropped = 0
            send(self._learner, Kind.SLOT_FILLED, slot)
