"""Starts children by forking a process that has loaded modules and computed nothing.

So a child starts in a hundredth of a second, and shares the memory of the libraries with its siblings. The server has
one thread that computes: CUDA and OpenCV begin to work in the child, and so may be used there.
"""

import errno
import gc
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from processes.child import Child, spawn, start_child
from processes.inside import live

REQUEST, ANSWER = struct.Struct("<i15s"), struct.Struct("<i")
# Requests: FORK, with a name and open files, is answered by the number of the new process; a number kills that process;
# with a minus, it asks for its exit code, which is RUNS as long as it runs.
FORK, RUNS = 0, 1000
MOST_FILES = 250
ANSWER_SECONDS = 60.0  # within which it answers, also while it loads modules; a server that was stopped is killed
MODULES = ("workers.worker", "evaluation.players", "wrappers.make_environment")  # of processes that play


class ForkServer:
    """Starts children as `spawn` does. The server starts with the first one, and again after it was killed."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = list(modules)
        self._child: Child | None = None
        self._requests: socket.socket | None = None

    def load(self) -> None:
        """Start the server, if it does not run: it loads its modules while this process goes on."""
        if self._child is None or self._child.has_ended or self._requests is None or self._requests.fileno() < 0:
            self.close()
            self._child = start_child(_Server(self._modules), "fork server")
            self._requests = socket.socket(fileno=os.dup(self._child.connection.fileno()))

    def __call__(self, name: str, files: Sequence[int]) -> "Forked":
        self.load()
        try:
            assert self._requests is not None
            return Forked(self._requests, _ask(self._requests, FORK, name, files))
        except OSError:  # it was killed; the next call starts another one
            self.close()
            raise

    def close(self) -> None:
        """End the server. Its children go on; they end with this process."""
        if self._child is not None and self._requests is not None:
            self._requests.close()
            self._child.end()
        self._child = self._requests = None


class Forked:
    """A forked child. Its server reaps it when it is asked, so its number stays its own until then."""

    def __init__(self, server: socket.socket, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        if self._exit_code is None:
            with suppress(OSError):
                code = _ask(self._server, -self.pid)
                self._exit_code = None if code == RUNS else code
        return self._exit_code

    def kill(self) -> None:
        if self._exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self._exit_code is None:
            try:
                self._exit_code = _ask(self._server, self.pid)
            except OSError:  # the server was killed: nobody knows how its children end
                self._exit_code = -signal.SIGKILL
        return self._exit_code


def _ask(server: socket.socket, request: int, name: str = "", files: Sequence[int] = ()) -> int:
    """OSError if the server has ended."""
    try:
        server.settimeout(ANSWER_SECONDS)
        socket.send_fds(server, [REQUEST.pack(request, name.encode())], files)
        answer = server.recv(ANSWER.size, socket.MSG_WAITALL)
    except TimeoutError:
        answer = b""
    if not answer:
        server.close()  # what comes later would be taken for another answer
        raise OSError(errno.ECHILD, "its fork server was killed or stopped")
    return int(ANSWER.unpack(answer)[0])


@dataclass(frozen=True)
class _Server:
    """The work of the server. A child has only the thread that forks it."""

    modules: Sequence[str]

    def run(self, connection: Connection) -> None:
        for module in self.modules:
            import_module(module)
        gc.collect()
        gc.freeze()  # so that a collection in a child does not copy the memory that it shares
        with socket.socket(fileno=os.dup(connection.fileno())) as requests:
            while True:
                request, files, _, _ = socket.recv_fds(requests, REQUEST.size, MOST_FILES)
                if not request:  # the parent has ended, or needs it no more
                    return
                number, name = REQUEST.unpack(request)
                try:
                    answer = _fork(name, files, [requests, connection]) if files else _reap(number)
                except OSError:  # the system refuses another process, which the parent sees as the end of this one
                    return
                requests.sendall(ANSWER.pack(answer))


def _fork(name: bytes, files: Sequence[int], own: Sequence[socket.socket | Connection]) -> int:
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        with suppress(OSError):
            Path("/proc/self/comm").write_bytes(name)  # for `top`
        for pipe in own:  # or nobody would notice the end of the server
            pipe.close()
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed()  # or environments that use this generator would play the same in all workers
        live(files)
        sys.stdout.flush()
        os._exit(0)
    for file in files:
        os.close(file)
    return child


def _reap(request: int) -> int:
    if request > 0:
        with suppress(ProcessLookupError):
            os.kill(request, signal.SIGKILL)
    child, status = os.waitpid(abs(request), 0 if request > 0 else os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if child else RUNS


FORK_SERVER = ForkServer(MODULES)  # of this process


def start_forked(work: Any, name: str, logs: Path | None = None) -> Child:
    """Like `start_child`, forked. On macOS it is spawned: libraries of the system do not work in forked processes."""
    launch = FORK_SERVER if sys.platform == "linux" else spawn
    try:
        return start_child(work, name, launch, logs)
    except OSError:  # the server may have been killed: once more, with another one, and pipes of its own
        return start_child(work, name, launch, logs)


def load_early() -> None:
    """Let the fork server load its modules while this program loads its own."""
    if sys.platform == "linux":
        with suppress(OSError):  # the first fork tries again
            FORK_SERVER.load()
