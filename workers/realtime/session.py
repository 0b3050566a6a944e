"""Runs a player with the real clock and real inference processes."""

import math
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import gymnasium
import numpy as np
import torch

from agents.acting import Decision
from machine.capacity import allow_processes
from option_flags import EnvironmentOptions, NetworkOptions, RealtimeOptions
from processes.child import start_child
from processes.fork_server import ForkServer
from processes.pool import ChildPool
from realtime.latency import MOST as LONGEST_TIME
from realtime.latency import LatencyModel
from realtime.staggering import RULES, new_state
from replay.unroll_layout import UnrollLayout
from workers.inference.rows import InferenceRows
from workers.memory.shared_weights import SharedWeights
from workers.realtime.frame_clock import FrameClock
from workers.realtime.games import RealtimeGames
from workers.realtime.inference_pool import Answered, InferencePool, Joined, Lost
from workers.realtime.inference_process import InferenceProcess
from workers.realtime.inference_schedule import InferenceSchedule
from workers.realtime.player import Book, RealtimePlayer
from workers.realtime.requirements import longest_latency
from workers.worker_clock import COLUMNS, ENVIRONMENT, WAITING, WorkerClock
from wrappers.atari import reward_clipping
from wrappers.emulator import Frame

RESTART_BUDGET = 100  # deaths of inference processes within ten minutes that a worker accepts

UNBOUNDED_FACTOR = 3  # of the longest time that was drawn
CHECK_SECONDS = 1.0  # between two checks for processes that do not answer
STOPPED_SECONDS = 1.0  # a step that takes so much longer than its wait means that this process was stopped


@dataclass(frozen=True, kw_only=True)
class RealtimeSetup:
    """What the games and the inference processes of one worker or player need."""

    environment: EnvironmentOptions
    realtime: RealtimeOptions
    network: NetworkOptions
    layout: UnrollLayout
    compute_dtype: torch.dtype
    weights: SharedWeights
    latency: LatencyModel | None
    processes: int
    timeout: float  # seconds, beside the latency, after which an inference process that does not answer is replaced
    seed: np.random.SeedSequence


class RealtimeSession:
    """The event loop of one process: frames, inferences and messages of the parent, in the order of their times.

    The clock starts when all inference processes are ready.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        environments: Sequence[gymnasium.Env[Frame, int]],
        uniforms: Sequence[np.random.Generator],
        book: Book,
        parent: Connection,
        *,
        choose: Callable[[Decision], torch.Tensor] = lambda decision: decision.actions,
        stopwatch: WorkerClock | None = None,
    ) -> None:
        self._stopwatch = stopwatch or WorkerClock(np.zeros(COLUMNS))
        self._setup = setup
        self._book = book
        self._choose = choose
        self.games = RealtimeGames(environments, uniforms, setup.environment)
        allow_processes(setup.processes)
        with ExitStack() as undo:
            self._selector = undo.enter_context(selectors.DefaultSelector())
            rows = undo.enter_context(closing(InferenceRows(setup.layout, setup.processes, len(environments))))
            seeds = setup.seed.spawn(setup.processes)

            def make(index: int) -> InferenceProcess:
                return InferenceProcess(
                    index=index,
                    network=setup.network,
                    compute_dtype=setup.compute_dtype,
                    rows=rows,
                    weights=setup.weights,
                    latency=setup.latency,
                    seed=seeds[index].spawn(1)[0],
                )

            server = undo.enter_context(closing(ForkServer([InferenceProcess.__module__])))
            # What is announced is in the log of this process. The learner replaces a worker whose budget is used up.
            children = ChildPool(
                print, silence=_silence(setup), budget=RESTART_BUDGET, start=partial(start_child, launch=server)
            )
            undo.callback(children.close)
            self.inference = InferencePool(children, make, rows)
            for source in (parent, self.inference):
                self._selector.register(source, selectors.EVENT_READ)
            self._resources = undo.pop_all()
        self._parent = parent
        self._check_at = 0.0
        self._waited_at = math.inf  # the end of the latest wait
        self._player: RealtimePlayer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

    @property
    def has_begun(self) -> bool:
        """Whether the clock runs."""
        return self._player is not None

    def step(self, longest_wait: float) -> bool:
        """Wait for the next thing and let it happen. Returns whether the parent has sent a message."""
        timeout = longest_wait
        if self._player is not None:
            timeout = min(max(0.0, self._player.next_time - time.monotonic()), timeout)
        ready = self._selector.select(timeout)
        self._notice_stop(timeout, time.monotonic())
        self._stopwatch.lap(WAITING)
        sources = [key.fileobj for key, _ in ready]
        now = time.monotonic()
        if self.inference in sources or now >= self._check_at:
            self._check_at = now + CHECK_SECONDS
            self._receive()
            now = time.monotonic()
        if self._player is None:
            if self.inference.all_ready:
                self._begin(now)
        elif self._player.next_time <= now:
            self._player.happen(now)
        self._stopwatch.lap(ENVIRONMENT)
        return self._parent in sources

    def _begin(self, now: float) -> None:
        setup = self._setup
        rule = RULES[setup.realtime.stagger](
            new_state(setup.processes), setup.environment.skipped_frames / setup.realtime.fps
        )
        self._player = RealtimePlayer(
            self.games,
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

    def _notice_stop(self, timeout: float, now: float) -> None:
        """Called after a wait of up to `timeout` seconds, before the answers that came meanwhile are received."""
        stopped, self._waited_at = now - self._waited_at - timeout, now
        if self._player is not None and stopped > STOPPED_SECONDS:
            self._player.stopped(stopped, now)

    def _receive(self) -> None:
        for event in self.inference.receive():
            if self._player is None:
                continue
            if isinstance(event, Joined):
                self._player.joined(event.process, time.monotonic())
            elif isinstance(event, Answered):
                self._player.answered(event.process, time.monotonic())
            elif isinstance(event, Lost):
                self._player.lost(event.process)


def _silence(setup: RealtimeSetup) -> float:
    """Seconds without an answer, after which an inference process hangs."""
    if setup.latency is None:
        return setup.timeout
    # A model without a bound may draw longer times than the longest of many draws.
    return setup.timeout + min(UNBOUNDED_FACTOR * longest_latency(setup.latency), LONGEST_TIME / 1000)
