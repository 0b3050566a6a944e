"""The learner's side of the gateway: starts it, receives its messages, and replaces it when it is lost."""

import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from cluster.gateway import Gateway
from workers.messages import Kind, Message, WorkerError, receive, send
from workers.processes.child_process import end_process, start_process, why_it_ended
from workers.processes.early_errors import kind_of_error, reason
from workers.processes.restarts import Restarts, WorkerHandle

SILENCE_SECONDS = 60.0  # without a heartbeat, after which the gateway is replaced; loading Ray takes some of them
UNREACHABLE_SECONDS = 5.0  # between two tries to reach a head that does not answer
END_SECONDS = 3.0  # for an end in good order


class GatewayProcess:
    """Keeps one gateway running. A cluster that cannot be reached is tried again and again, and the run goes on.

    `started` and `ended` are called when a gateway has connected to the cluster, and when it has ended.
    """

    def __init__(
        self,
        make_gateway: Callable[[int], Gateway],  # from the number of gateways before it
        received: Callable[[Message], None],
        started: Callable[[], None],
        ended: Callable[[], None],
        announce: Callable[[str], None],
        restart_budget: int,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[..., tuple[BaseProcess, Connection]] = start_process,
    ) -> None:
        self._make_gateway = make_gateway
        self._received = received
        self._started = started
        self._ended = ended
        self._announce = announce
        self._clock = clock
        self._start_process = start
        self._restarts = Restarts(restart_budget, clock)
        self._handle = WorkerHandle(0, "the gateway to the cluster")
        self._starts = 0
        self._connected = False
        self._unreachable = ""  # why the cluster cannot be reached, once announced
        self._polled_at = clock()

    @property
    def is_connected(self) -> bool:
        return self._connected

    def sources(self) -> list[Any]:
        """What becomes ready when the gateway has sent something, or has ended."""
        handle = self._handle
        return [] if handle.process is None else [handle.connection, handle.process.sentinel]

    def process_ids(self) -> list[int]:
        handle = self._handle
        return [handle.process.pid] if handle.process is not None and handle.process.pid else []

    def send(self, kind: Kind, index: int = 0, payload: Any = None) -> None:
        """Send a message to a gateway that has connected; another one is told everything when it has."""
        if self._connected and self._handle.connection is not None:
            with suppress(OSError):  # it has just died, which the next `poll` finds
                send(self._handle.connection, kind, index, payload)

    def poll(self) -> None:
        """Receive what the gateway has sent, and replace it if it is lost or silent."""
        now = self._clock()
        handle = self._handle
        if now - self._polled_at > SILENCE_SECONDS / 2:  # the learner itself was stopped, or was busy
            handle.silent_since = now
        self._polled_at = now
        if handle.process is None:
            if now >= handle.start_at:
                self._start()
            return
        assert handle.connection is not None
        try:
            while handle.process is not None and handle.connection.poll():
                self._receive(receive(handle.connection))
        except WorkerError as error:
            self._lose(str(error))
        except (EOFError, OSError):
            self._lose("")
        else:
            if now - handle.silent_since > SILENCE_SECONDS:
                self._lose(f"did not respond for {SILENCE_SECONDS:g} seconds")

    def close(self) -> None:
        """End the gateway, and with it everything of the run in the cluster."""
        process, connection = self._handle.process, self._handle.connection
        if process is None or connection is None:
            return
        connection.close()  # its signal to leave the cluster in good order
        process.join(END_SECONDS)
        end_process(process, connection)
        self._handle.process = self._handle.connection = None

    def _start(self) -> None:
        handle = self._handle
        try:
            handle.process, handle.connection = self._start_process(self._make_gateway(self._starts), "gateway")
        except OSError as error:
            if self._restarts.postpone(handle, str(error.strerror)):
                self._announce(f"{handle.name} is started later ({error.strerror})")
            return
        self._starts += 1
        handle.refusals = 0
        handle.silent_since = self._clock()

    def _receive(self, message: Message) -> None:
        self._handle.silent_since = self._clock()
        if message.kind == Kind.HEARTBEAT:
            if message.index and not self._connected:
                self._connected = True
                if self._unreachable:
                    self._unreachable = ""
                    self._announce("the cluster answers again")
                self._started()
            elif self._connected:  # it has worked for a while: only failures of a start count as failures in a row
                self._handle.failures = 0
            return
        self._received(message)

    def _lose(self, error: str) -> None:
        """End the process, and plan its replacement."""
        handle = self._handle
        process, was_connected = handle.process, self._connected
        assert process is not None and handle.connection is not None
        exit_code = end_process(process, handle.connection)
        said = "" if error else why_it_ended(process, exit_code)
        handle.process = handle.connection = None
        self._connected = False
        self._ended()
        if was_connected:
            how = self._restarts.plan(handle, exit_code, f"failed:\n{error}" if "\n" in error else error, reason(said))
            self._announce(f"{handle.name} is replaced: it {how}")
            return
        handle.start_at = self._clock() + UNREACHABLE_SECONDS
        why = reason(error or said) or f"its gateway ended with code {exit_code}"
        if kind_of_error(why) != kind_of_error(self._unreachable):
            self._announce(
                f"the cluster cannot be reached ({why}); the run goes on without it, and tries again every "
                f"{UNREACHABLE_SECONDS:g} seconds"
            )
        self._unreachable = why
