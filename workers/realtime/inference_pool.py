"""The inference processes of one worker: starts them, and replaces those that die."""

import math
import os
import queue
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import torch

from agents.acting import Decision
from workers.inference.rows import InferenceRows
from workers.messages import Kind, receive, send
from workers.observations import put_stack
from workers.processes.child_process import end_process, fork_process
from workers.realtime.inference_process import InferenceProcess
from workers.realtime.player import Seen

FAILURES_IN_A_ROW = 5  # of one process, without a decision between them
REFUSED_SECONDS = 0.2  # until the system is asked again for a process that it refused to start


class Joined(NamedTuple):
    """A process is ready for requests."""

    process: int


class Answered(NamedTuple):
    """A process has made its decision."""

    process: int


class Lost(NamedTuple):
    """A process has died. Its replacement is being started."""

    process: int


@dataclass
class _Running:
    process: BaseProcess
    connection: Connection
    started_at: float = field(default_factory=time.monotonic)
    has_joined: bool = False
    cpu: float = 0.0  # seconds, at its latest answer


class _Started(NamedTuple):
    """What came of the start of a process."""

    process: int
    outcome: _Running | OSError


class InferencePool:
    """Keeps N processes running. `selector` gets their pipes, and `receive` is called for those that are ready.

    Processes are started in a thread, because this takes longer than a frame.
    """

    def __init__(
        self,
        make: Callable[[int], InferenceProcess],
        rows: InferenceRows,
        selector: selectors.BaseSelector,
        start: Callable[..., tuple[BaseProcess, Connection]] = fork_process,
    ) -> None:
        self._make = make
        self._selector = selector
        self._start_process = start
        self._games = slice(0, rows.environments)
        self._requests = [rows.request_layout.arrays(row[self._games]) for row in rows.requests]
        results = [rows.result_layout.arrays(row[self._games]) for row in rows.results]
        names = ("action", "logits", "value", "features", "lstm_state")
        self._decisions = [Decision(*(torch.from_numpy(result[name]) for name in names)) for result in results]
        self._versions = [result["weight_version"] for result in results]
        self._running: list[_Running | None] = [None] * len(results)
        self._failures = [0] * len(results)
        self._cpu = 0.0  # seconds that were not taken yet
        self._joined_at = -math.inf  # when a process got ready last
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._started: queue.SimpleQueue[_Started] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        selector.register(self._wake_read, selectors.EVENT_READ, self)
        for process in range(len(results)):
            self._wanted.put(process)
        self._closing = False
        self._starter = threading.Thread(target=self._start_wanted, daemon=True)
        self._starter.start()

    def __len__(self) -> int:
        return len(self._running)

    def request(self, process: int, seen: Seen, uniforms: list[float]) -> None:
        """Ask a process for a decision. If it has just died, `receive` will say so."""
        request = self._requests[process]
        for out, stack in zip(request["observation"], seen.stacks, strict=True):
            put_stack(out, stack)
        request["uniform"][:] = uniforms
        request["lstm_state"][:] = seen.state.lstm_state
        request["previous_action"][:] = seen.state.previous_actions
        request["previous_reward"][:] = seen.state.previous_rewards
        running = self._running[process]
        assert running is not None
        with suppress(BrokenPipeError, ConnectionResetError):
            send(running.connection, Kind.ACTION_REQUEST)

    def result(self, process: int) -> tuple[Decision, int]:
        """The decision that a process has made, in memory that its next one overwrites, and the weights' version."""
        return self._decisions[process], int(self._versions[process][0])

    def take_cpu_seconds(self) -> float:
        """CPU time of the processes since the last call, as far as they have told."""
        seconds, self._cpu = self._cpu, 0.0
        return seconds

    def receive(self, ready: int | None) -> Iterator[Joined | Answered | Lost]:
        """What the process `ready` says; with None, the processes that have been started.

        WorkerError if a process raised an exception.
        """
        if ready is None:
            os.read(self._wake_read, 1)
            process, outcome = self._started.get()
            if isinstance(outcome, _Running):
                self._add(process, outcome)
            else:
                self._start_again(process, f"it could not be started ({outcome.strerror})")
            return
        running = self._running[ready]
        if running is None:
            return
        try:
            message = receive(running.connection)
        except (EOFError, OSError):
            self.replace(ready)
            yield Lost(ready)
            return
        if message.kind == Kind.HEARTBEAT:
            running.has_joined = True
            self._joined_at = time.monotonic()
            yield Joined(ready)
            return
        self._failures[ready] = 0
        self._cpu += message.payload - running.cpu
        running.cpu = message.payload
        yield Answered(ready)

    def replace_silent_starts(self, seconds: float) -> None:
        """Replace the processes that have not got ready for so long, while no other one has either.

        Where many start at once, the last ones take long.
        """
        now = time.monotonic()
        for process, running in enumerate(self._running):
            if running is None or running.has_joined:
                continue
            if now - max(running.started_at, self._joined_at) > seconds:
                self.replace(process)

    def replace(self, process: int) -> None:
        """End a process that died, or does not answer, and start another one in its place."""
        running = self._running[process]
        assert running is not None
        self._running[process] = None
        self._selector.unregister(running.connection)
        exit_code = end_process(running.process, running.connection)
        self._start_again(process, f"it ended with exit code {exit_code}")

    def close(self) -> None:
        """End all processes."""
        self._closing = True
        self._wanted.put(None)
        self._starter.join()
        while not self._started.empty():
            started = self._started.get()
            if isinstance(started.outcome, _Running):
                self._add(started.process, started.outcome)
        for running in self._running:
            if running is not None:
                running.process.kill()
        for running in self._running:
            if running is not None:
                self._selector.unregister(running.connection)
                end_process(running.process, running.connection)
        self._running = []
        self._selector.unregister(self._wake_read)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _start_wanted(self) -> None:
        """The loop of the thread."""
        while (process := self._wanted.get()) is not None and not self._closing:
            outcome: _Running | OSError
            try:
                outcome = _Running(*self._start_process(self._make(process), f"inference-{process}"))
            except OSError as error:
                outcome = error
                time.sleep(REFUSED_SECONDS)
            self._started.put(_Started(process, outcome))
            os.write(self._wake_write, b"+")

    def _add(self, process: int, running: _Running) -> None:
        self._running[process] = running
        self._selector.register(running.connection, selectors.EVENT_READ, process)

    def _start_again(self, process: int, why: str) -> None:
        """Start a process after a failure; RuntimeError after too many of them."""
        self._failures[process] += 1
        if self._failures[process] >= FAILURES_IN_A_ROW:
            raise RuntimeError(
                f"inference process {process} failed {FAILURES_IN_A_ROW} times before it made a decision; "
                f"the last time, {why}"
            )
        self._wanted.put(process)
