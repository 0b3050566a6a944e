"""Runs a player with the real clock and real inference processes."""

import math
import selectors
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
import torch

from agents.acting import Decision
from machine.capacity import allow_processes
from processes.child import start_child
from processes.fork_server import ForkServer
from processes.pool import ChildPool
from workers.inference.rows import InferenceRows
from workers.realtime.inference import InferencePool, InferenceProcess, RealtimeSetup
from workers.realtime.latency import MOST as LONGEST_TIME
from workers.realtime.player import Book, ClockedGame, RealtimePlayer
from workers.realtime.requirements import longest_latency
from workers.realtime.schedule import RULES, FrameClock, InferenceSchedule
from workers.worker_clock import COLUMNS, ENVIRONMENT, WAITING, WorkerClock
from wrappers.atari import reward_clipping

RESTART_BUDGET = 100  # deaths of inference processes within ten minutes that a worker accepts

UNBOUNDED_FACTOR = 3  # of the longest time that was drawn
CHECK_SECONDS = 1.0  # between two checks for processes that do not answer
STOPPED_SECONDS = 1.0  # a step that takes so much longer than its wait means that this process was stopped


class RealtimeSession:
    """The event loop of one process: frames, inferences and messages of the parent, in the order of their times.

    The clock starts when all inference processes are ready. It stands still while this process is stopped.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        games: Sequence[ClockedGame],
        book: Book,
        parent: Connection,
        choose: Callable[[Decision], torch.Tensor] = lambda decision: decision.actions,
        stopwatch: WorkerClock | None = None,
    ) -> None:
        self._setup = setup
        self._games = games
        self._book = book
        self._parent = parent
        self._choose = choose
        self._stopwatch = stopwatch or WorkerClock(np.zeros(COLUMNS))
        self._check_at = 0.0
        self._stopped = 0.0  # seconds
        self._waited_at = math.inf  # the end of the latest wait
        self._player: RealtimePlayer | None = None
        self.inference = self._start_inference()
        self._selector = selectors.DefaultSelector()
        for source in (parent, self.inference):
            self._selector.register(source, selectors.EVENT_READ)

    def _start_inference(self) -> InferencePool:
        setup = self._setup
        allow_processes(setup.processes)
        rows = InferenceRows(setup.layout, setup.processes, len(self._games))
        server = ForkServer([InferenceProcess.__module__])
        # What is announced is in the log of this process. The learner replaces a worker whose budget is used up.
        children = ChildPool(
            print, silence=_silence(setup), budget=RESTART_BUDGET, start=partial(start_child, launch=server)
        )
        return InferencePool(children, partial(InferenceProcess, setup, rows), rows)

    def step(self, longest_wait: float) -> bool:
        """Wait for the next thing and let it happen. Returns whether the parent has sent a message."""
        timeout = longest_wait
        if self._player is not None:
            timeout = min(max(0.0, self._player.next_time - self._now()), timeout)
        ready = self._selector.select(timeout)
        self._notice_stop(timeout)
        self._stopwatch.lap(WAITING)
        sources = [key.fileobj for key, _ in ready]
        if self.inference in sources or self._now() >= self._check_at:
            self._check_at = self._now() + CHECK_SECONDS
            self._receive()
        now = self._now()
        if self._player is None:
            if self.inference.all_ready:
                self._begin(now)
        elif self._player.next_time <= now:
            self._player.happen(now)
        self._stopwatch.lap(ENVIRONMENT)
        return self._parent in sources

    def _now(self) -> float:
        return time.monotonic() - self._stopped

    def _begin(self, now: float) -> None:
        setup = self._setup
        rule = RULES[setup.realtime.stagger](setup.processes, setup.environment.skipped_frames / setup.realtime.fps)
        self._player = RealtimePlayer(
            self._games,
            setup.layout,
            self._book,
            self.inference,
            InferenceSchedule(rule),
            FrameClock(now, setup.realtime.fps),
            clip=reward_clipping(setup.environment.reward_clipping_method),
            choose=self._choose,
        )
        for process in range(setup.processes):
            self._player.joined(process, now)

    def _notice_stop(self, timeout: float) -> None:
        """Called after a wait of up to `timeout` seconds: time in which this process was stopped does not count."""
        now = self._now()
        stopped = now - self._waited_at - timeout
        if self._player is not None and stopped > STOPPED_SECONDS:
            self._stopped += stopped
            now -= stopped
        self._waited_at = now

    def _receive(self) -> None:
        for what, process in self.inference.receive():
            if self._player is None:
                continue
            match what:
                case "joined":
                    self._player.joined(process, self._now())
                case "answered":
                    self._player.answered(process, self._now())
                case "lost":
                    self._player.lost(process)


def _silence(setup: RealtimeSetup) -> float:
    """Seconds without an answer, after which an inference process hangs."""
    if setup.latency is None:
        return setup.timeout
    # A model without a bound may draw longer times than the longest of many draws.
    return setup.timeout + min(UNBOUNDED_FACTOR * longest_latency(setup.latency), LONGEST_TIME / 1000)
