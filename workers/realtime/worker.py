"""A worker process that plays in real time. It never waits for the learner."""

from collections import deque
from multiprocessing.connection import Connection

from machine.system_settings import use_one_thread
from processes.inside import HEARTBEAT_SECONDS, Heartbeat
from processes.messages import Kind, receive, send
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.realtime.inference import RealtimeSetup
from workers.realtime.player import ClockedGame
from workers.realtime.requirements import latency_model
from workers.realtime.session import RealtimeSession
from workers.realtime.unrolls import RealtimeUnrolls
from workers.worker import Worker
from workers.worker_clock import REST, WorkerClock


class RealtimeWorker(Worker):
    """Like `Worker`, but it plays by the clock, and delivers its unrolls when they are complete."""

    def run(self, connection: Connection) -> None:
        use_one_thread()
        config, layout, machine = self.setup.config, self.setup.layout, self.setup.machine
        clock = WorkerClock(self.memory.times.seconds[self.place.worker])
        alive = Heartbeat(connection)
        environments = self.make_environments(alive)
        unrolls = RealtimeUnrolls(layout, config.environment, environments)
        setup = RealtimeSetup(
            environment=config.environment,
            realtime=config.realtime,
            network=config.network,
            layout=layout,
            compute_dtype=machine.worker_precision,
            weights=self.memory.weights,
            latency=latency_model(config.realtime),
            processes=machine.inference_processes,
            timeout=config.workers.worker_timeout,
            seed=(config.seed, self.place.worker, self.setup.resume_count, self.place.restart_index),
        )
        delivery = Delivery(self.rows, layout, 1 + machine.inference_processes // layout.unroll_length)
        games = [ClockedGame(each.env, each.uniforms, config.environment) for each in environments]
        session = RealtimeSession(setup, games, unrolls, connection, stopwatch=clock)
        for game in games:
            game.start()
        while True:
            if session.step(HEARTBEAT_SECONDS):
                delivery.slot_free(receive(connection).index)
            rows = unrolls.take()
            if rows is not None:
                delivery.add(rows)
            for slot in delivery.filled():
                send(connection, Kind.SLOT_FILLED, slot)
            if alive.is_due:
                alive()  # decisions may take longer than the learner waits for an answer
                clock.add_cpu(session.inference.take_cpu_seconds())
                clock.share()
            clock.lap(REST)


class Delivery:
    """Writes complete unrolls to free slots. The games go on while there is none, so at most `most` rounds wait.

    When there is one more, the oldest is dropped and counted. Rounds become complete in their order, so those that
    follow a slow decision do so all at once: `most` is 1, and as many as there can be of these.
    """

    def __init__(self, slots: Rows, layout: UnrollLayout, most: int) -> None:
        """`slots` are those of the worker: `[slot, environment, nbytes]`."""
        self._slots = slots
        self._layout = layout
        self._most = most
        self._free: deque[int] = deque()
        self._waiting: deque[Rows] = deque()
        self._dropped = 0  # rounds since the latest one that was delivered

    def add(self, rows: Rows) -> None:
        """Unrolls [E, nbytes] are complete."""
        self._waiting.append(rows)

    def slot_free(self, slot: int) -> None:
        """The learner has taken all unrolls of a slot."""
        self._free.append(slot)

    def filled(self) -> list[int]:
        """Fill free slots, as far as there are rounds; return those that are filled now."""
        filled = []
        while self._waiting and self._free:
            rows, slot = self._waiting.popleft(), self._free.popleft()
            self._layout.array(rows, "dropped_unrolls")[:] = self._dropped
            self._slots[slot] = rows
            self._dropped = 0
            filled.append(slot)
        while len(self._waiting) > self._most:
            self._waiting.popleft()
            self._dropped += 1
        return filled
