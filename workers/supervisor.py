"""Starts the worker processes and the inference server, receives their messages, and replaces those that are lost."""

import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from machine.capacity import allow_processes
from workers.failures import could_not_start
from workers.inference.server import InferenceServer, connect_worker
from workers.messages import UNASKED, Kind, Message, WorkerError, receive, send
from workers.processes.child_process import end_process, start_process, why_it_ended
from workers.processes.early_errors import KindsOfErrors, reason
from workers.processes.heartbeat import HEARTBEAT_SECONDS
from workers.processes.restarts import Restarts, WorkerHandle
from workers.processes.silence import SilenceLimit
from workers.worker import Worker

EXIT_CHECK_SECONDS = 1.0  # between two checks for processes that have ended unheard
MISSED_HEARTBEATS = 3  # the inference server counts as silent after this many, and its workers have to wait for it


class Supervisor:
    """Keeps one process running for each worker, and one for the inference server if there is one.

    A process that dies, raises an exception or is silent for too long is replaced. The server starts before the
    workers; when it is lost, all workers are replaced with it. `received` is called with each message of a worker,
    and `ended` with the index of each worker whose process has ended.
    """

    def __init__(
        self,
        workers: int,
        make_worker: Callable[[int, int], Worker],  # (index, restart_index) → worker
        server: InferenceServer | None,
        received: Callable[[int, Message], None],
        ended: Callable[[int], None],
        announce: Callable[[str], None],
        *,
        silence_limit: float,  # seconds
        restart_budget: int,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[..., tuple[BaseProcess, Connection]] = start_process,
    ) -> None:
        self._make_worker = make_worker
        self._server = server
        self._received = received
        self._ended = ended
        self._announce = announce
        self._silence = SilenceLimit(silence_limit, clock)
        self._restarts = Restarts(restart_budget, clock)
        self._clock = clock
        self._start_process = start
        self._workers = [WorkerHandle(index, f"worker {index}") for index in range(workers)]
        self._servers = [] if server is None else [WorkerHandle(-1, "the inference server")]
        self._handles = [*self._servers, *self._workers]
        self._sources = selectors.DefaultSelector()  # each process's pipe and sentinel
        self._next_exit_check = 0.0
        self._shown = KindsOfErrors()  # of which one output or traceback has been announced
        allow_processes(len(self._handles))
        try:
            for handle in self._handles:
                self._start_first(handle)
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        return len(self._workers)

    @property
    def alive(self) -> int:
        return sum(worker.process is not None for worker in self._workers)

    @property
    def restarts(self) -> int:
        return self._restarts.count

    def is_running(self, worker: int) -> bool:
        return self._workers[worker].process is not None

    def restart_index(self, worker: int) -> int:
        """How many processes the worker has had before this one."""
        return self._workers[worker].restart_index

    def process_ids(self) -> list[int]:
        return [handle.process.pid for handle in self._handles if handle.process is not None and handle.process.pid]

    def request(self, worker: int, kind: Kind, index: int = 0) -> None:
        """Send a message that the worker answers with one message; the silence limit applies until then."""
        handle = self._workers[worker]
        if not handle.unanswered:
            handle.silent_since = self._clock()
        handle.unanswered += 1
        self.send(worker, kind, index)

    def send(self, worker: int, kind: Kind, index: int = 0, payload: Any = None) -> None:
        """Send a message. If the worker has just died, the next `poll` replaces it."""
        connection = self._workers[worker].connection
        assert connection is not None
        with suppress(BrokenPipeError, ConnectionResetError):
            send(connection, kind, index, payload)

    def poll(self, timeout: float, others: Sequence[Any] = ()) -> None:
        """Wait up to `timeout` seconds for messages and receive them, then replace lost and silent processes.

        The wait also ends when one of `others` is ready, which the caller reads.
        """
        # The server first: if it is lost, its workers end because of it.
        for source in sorted(self._wait(timeout, others), key=lambda source: source.data.index):
            handle: WorkerHandle = source.data
            if handle.process is not None:  # it was not ended in this loop
                self._receive(handle)
            if handle.process is not None and source.fileobj == handle.process.sentinel:
                self._lose(handle)
        now = self._clock()
        self._silence.has_waited(timeout, self._handles)
        self._excuse_workers_of_a_silent_server(now)
        checks_exits = time.monotonic() >= self._next_exit_check
        if checks_exits:
            self._next_exit_check = time.monotonic() + EXIT_CHECK_SECONDS
        for handle in self._handles:
            if handle.process is None:
                if now >= handle.start_at and (handle in self._servers or self._server_is_running):
                    self._start_again(handle)
            elif checks_exits and handle.process.exitcode is not None:
                # A process that its environment forked may keep pipe and sentinel open, so that its end is not heard.
                self._receive(handle)
                if handle.process is not None:
                    self._lose(handle)
            elif self._must_respond(handle) and self._silence.hangs(handle, handle.process):
                self._lose(handle, self._silence.hang_in_words(handle.process))

    def close(self) -> None:
        """End all processes. They hold nothing that could be lost."""
        for handle in self._handles:
            if handle.process is not None:
                handle.process.kill()
        for handle in self._handles:
            if handle.process is not None:
                self._end(handle)
        self._sources.close()

    def _wait(self, timeout: float, others: Sequence[Any]) -> list[selectors.SelectorKey]:
        """Wait for messages and ends of processes; return their sources, with the handle of each as its data."""
        for other in others:
            self._sources.register(other, selectors.EVENT_READ)
        try:
            return [source for source, _ in self._sources.select(timeout) if source.data is not None]
        finally:
            for other in others:
                self._sources.unregister(other)

    @property
    def _server_is_running(self) -> bool:
        """Also true in a run without an inference server."""
        return all(server.process is not None for server in self._servers)

    def _must_respond(self, handle: WorkerHandle) -> bool:
        return handle in self._servers or handle.unanswered > 0

    def _excuse_workers_of_a_silent_server(self, now: float) -> None:
        """They wait for it: their own silence does not count."""
        if any(now - server.silent_since > MISSED_HEARTBEATS * HEARTBEAT_SECONDS for server in self._servers):
            for worker in self._workers:
                worker.silent_since = now

    def _receive(self, handle: WorkerHandle) -> None:
        """Receive all messages of one process, also those that it sent before it died."""
        assert handle.connection is not None
        try:
            while handle.connection.poll():
                message = receive(handle.connection)
                handle.silent_since = self._clock()
                if message.kind == Kind.SLOT_FILLED or (message.kind == Kind.HEARTBEAT and message.index):
                    handle.failures = 0
                if message.kind not in UNASKED:
                    handle.unanswered -= 1
                if message.kind != Kind.HEARTBEAT:
                    self._received(handle.index, message)
        except WorkerError as error:
            self._lose(handle, self._failure(handle, str(error).rstrip()))
        except (EOFError, OSError):
            self._lose(handle)

    def _start(self, handle: WorkerHandle) -> None:
        if handle in self._servers:
            handle.process, handle.connection = self._start_process(self._server, "inference")
        else:
            worker = self._make_worker(handle.index, handle.restart_index)
            name = f"worker-{handle.index}"
            handle.process, handle.connection = self._start_process(worker, name, *self._server_pipes(handle))
        handle.silent_since = self._clock()
        handle.interrupted_at = None
        for source in (handle.connection, handle.process.sentinel):
            self._sources.register(source, selectors.EVENT_READ, handle)

    def _server_pipes(self, handle: WorkerHandle) -> Iterator[Connection]:
        """The worker's pipe to the inference server, if there is one."""
        for server in self._servers:
            assert server.process is not None and server.connection is not None and server.process.pid is not None
            yield connect_worker(server.connection, server.process.pid, handle.index)

    def _start_first(self, handle: WorkerHandle) -> None:
        try:
            self._start(handle)
        except OSError as error:
            raise could_not_start(handle.name, error) from None

    def _start_again(self, handle: WorkerHandle) -> None:
        """Start a replacement, or try again later if the system refuses it now."""
        try:
            self._start(handle)
        except OSError as error:
            why = error.strerror or str(error)
            if self._restarts.postpone(handle, why):
                self._announce(f"{handle.name} is replaced later: it could not be started ({why})")
        else:
            handle.refusals = 0

    def _failure(self, handle: WorkerHandle, text: str) -> str:
        """How a process failed: with its traceback, if this is the first of its kind."""
        what = "failed" if handle.interrupted_at is None else self._silence.in_words
        if self._shown.is_new(text):
            return f"{what}:\n{text}"
        return f"{what}, in the same way as before: {text.splitlines()[-1]}"

    def _lose(self, handle: WorkerHandle, how: str = "") -> None:
        """End a process and plan its replacement."""
        process = handle.process
        assert process is not None
        exit_code = self._end(handle)
        said = "" if how else why_it_ended(process, exit_code)
        why = reason(said)
        how = self._restarts.plan(handle, exit_code, how, why)
        if said != why and self._shown.is_new(why):  # once: each new process is likely to end in the same way
            how += f"; before, it wrote:\n{said}"
        self._announce(f"{handle.name} is replaced: it {how}")
        if handle in self._servers:
            self._end_workers(handle.start_at)

    def _end_workers(self, start_at: float) -> None:
        """End the workers of a lost server; their replacements start after the next server."""
        for worker in self._workers:
            if worker.process is not None:
                self._end(worker)
                worker.restart_index += 1
            worker.start_at = max(worker.start_at, start_at)

    def _end(self, handle: WorkerHandle) -> int:
        """Kill the process if it still runs, so that its slots can be used again; return its exit code."""
        process, connection = handle.process, handle.connection
        assert process is not None and connection is not None
        for source in (connection, process.sentinel):
            self._sources.unregister(source)
        handle.process = handle.connection = None
        handle.unanswered = 0
        exit_code = end_process(process, connection)
        if handle not in self._servers:
            self._ended(handle.index)
        return exit_code
