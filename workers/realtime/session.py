"""Runs a player with the real clock and real inference processes, and the worker that plays so."""

import math
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection

from agents.acting import Decision
from machine.capacity import allow_processes
from machine.system_settings import use_one_thread
from processes.fork_server import start_forked
from processes.inside import HEARTBEAT_SECONDS, Heartbeat
from processes.messages import Kind, receive, send
from processes.pool import ChildPool, Ended, Event, Member
from replay.row_layout import Rows
from workers.policy_inputs import InferenceRows, PolicyInputs
from workers.realtime.inference import InferenceProcess, RealtimeSetup
from workers.realtime.player import Book, ClockedGame, RealtimePlayer
from workers.realtime.timing import latencies
from workers.realtime.unrolls import RealtimeUnrolls
from workers.shared_array import ENVIRONMENT, REST, WAITING, WorkerClock
from workers.worker import Worker, report_failed_resets

STOPPED_SECONDS = 1.0  # a step that takes so much longer than its wait: the process was stopped, or a reset took long


class RealtimeSession:
    """The event loop of one process: frames, inferences and messages of the parent, in the order of their times.

    The clock starts when all inference processes are ready. It stands still while this process is stopped. An inference
    process that dies or does not answer is replaced; what is said about it is in the log of this process.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        games: Sequence[ClockedGame],
        book: Book,
        parent: Connection,
        stopwatch: WorkerClock | None = None,
    ) -> None:
        self._setup = setup
        self._games = games
        self._book = book
        self._parent = parent
        self._stopwatch = stopwatch or WorkerClock()
        self._stopped = 0.0  # seconds
        self._waited_at = math.inf  # the end of the latest wait
        self._player: RealtimePlayer | None = None
        self._ready: set[int] = set()  # processes

        count, shown = setup.processes, slice(0, len(games))
        rows = InferenceRows(setup.layout, count, len(games))
        self._requests = [rows.inputs(process).select(shown) for process in range(count)]
        results = [rows.decisions(process) for process in range(count)]
        self._decisions = [Decision(*(part[shown] for part in decision)) for decision, _ in results]
        self._versions = [versions for _, versions in results]
        allow_processes(count)
        latency = latencies(setup.config.realtime)
        silence = setup.config.workers.worker_timeout + (0.0 if latency is None else float(latency.max()) / 1000)
        budget = setup.config.workers.worker_restart_budget
        self._children = ChildPool(print, silence=silence, budget=budget, start=start_forked)
        self._members = [
            Member(f"inference process {index}", partial(InferenceProcess, setup, rows, index), index, owes_at_start=1)
            for index in range(count)
        ]
        for member in self._members:
            self._children.add(member)

    def step(self, longest_wait: float) -> bool:
        """Wait for the next thing and let it happen. Returns whether the parent has sent a message."""
        self._children.start_due()  # before the timeout is computed: a fork takes time
        timeout = longest_wait
        if self._player is not None:
            timeout = min(max(0.0, self._player.next_time - self._now()), timeout)
        events = self._children.poll(timeout, [self._parent])
        self._notice_stop(timeout)
        self._stopwatch.lap(WAITING)
        self._receive(events)
        now = self._now()
        if self._player is None:
            if len(self._ready) == len(self._members):
                self._player = RealtimePlayer(self._games, self._setup, self._book, self._request, now)
                for process in range(len(self._members)):
                    self._player.joined(process, now)
        elif self._player.next_time <= now:
            self._player.happen(now)
        self._stopwatch.lap(ENVIRONMENT)
        return self._parent.poll()

    def _request(self, process: int, inputs: PolicyInputs) -> None:
        """Ask a process for a decision. If it has just died, the next messages will say so."""
        self._requests[process].copy_from(inputs)
        self._children.request(self._members[process], Kind.ACTION_REQUEST)

    def _now(self) -> float:
        return time.monotonic() - self._stopped

    def _notice_stop(self, timeout: float) -> None:
        """Called after a wait of up to `timeout` seconds: time in which no game could be played does not count."""
        now = self._now()
        stopped = now - self._waited_at - timeout
        if self._player is not None and stopped > STOPPED_SECONDS:
            self._stopped += stopped
            now -= stopped
        self._waited_at = now

    def _receive(self, events: Sequence[Event]) -> None:
        """Take in what the processes have sent. WorkersFailedError if one fails again and again."""
        for member, event in events:
            process, player = member.index, self._player
            if isinstance(event, Ended):
                self._ready.discard(process)
                self._children.replace(member, event)
                if player is not None:
                    player.lost(process)
                continue
            member.owes -= 1
            if event.kind == Kind.HEARTBEAT:
                self._ready.add(process)
                if player is not None:
                    player.joined(process, self._now())
            else:
                member.failures = 0
                self._stopwatch.add_cpu(event.payload)
                assert player is not None
                player.answered(process, self._decisions[process], int(self._versions[process][0]), self._now())


class RealtimeWorker(Worker):
    """Like `Worker`, but it plays by the clock, and delivers its unrolls when they are complete.

    The games go on while no slot is free. Complete rounds wait then, and the oldest is dropped and counted when there
    are too many: more than one, or with many inference processes those that become complete together.
    """

    def run(self, connection: Connection) -> None:
        use_one_thread()
        config, layout, machine = self.setup.config, self.setup.layout, self.setup.machine
        clock = WorkerClock(self.memory.times.array[self.index])
        alive = Heartbeat(connection)
        environments = self.make_environments(alive)
        unrolls = RealtimeUnrolls(layout, config.environment, environments)
        setup = RealtimeSetup(
            config=config,
            layout=layout,
            compute_dtype=machine.worker_precision,
            weights=self.memory.weights,
            processes=machine.inference_processes,
            seed=(config.seed, self.index, self.setup.resume_count, self.restart_index),
        )
        free: deque[int] = deque()  # slots
        waiting: deque[Rows] = deque()
        most = 1 + machine.inference_processes // layout.unroll_length
        dropped = 0  # rounds since the latest one that was delivered
        games = [ClockedGame(each.env, each.uniforms, config.environment) for each in environments]
        session = RealtimeSession(setup, games, unrolls, connection, stopwatch=clock)
        for game in games:
            game.start()
        while True:
            if session.step(HEARTBEAT_SECONDS):
                free.append(receive(connection).index)
            if (complete := unrolls.take()) is not None:
                waiting.append(complete)
            while waiting and free:
                rows, slot = waiting.popleft(), free.popleft()
                layout.array(rows, "dropped_unrolls")[:] = dropped
                self.memory.slots.array[self.index, slot] = rows
                dropped = 0
                for game in games:
                    report_failed_resets(connection, game.failed_resets)
                send(connection, Kind.SLOT_FILLED, slot)
            while len(waiting) > most:
                waiting.popleft()
                dropped += 1
            if alive.is_due:
                alive()  # decisions may take longer than the learner waits for an answer
                clock.share()
            clock.lap(REST)
