"""Starts and ends child processes.

A child ends when its parent ends, and with it the programs that its environments have started. This module imports
nothing slow, so that a child watches its parent before it loads torch.
"""

import errno
import multiprocessing
import os
import pickle
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from multiprocessing import connection as connections
from multiprocessing import forkserver, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess, SpawnProcess
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from workers.messages import send_error
from workers.processes.early_errors import EarlyErrors, why_not_started
from workers.processes.interrupts import INTERRUPT, accept_interrupts, place_in
from wrappers.any_environment.faults import EnvironmentFaultError, UserCodeError

PARENT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
# A child accepts interrupts when it is ready for them. Its group is in the terminal's background, where SIGTTOU would
# stop what it writes under `stty tostop`.
BLOCKED_SIGNALS = (*PARENT_SIGNALS, INTERRUPT, signal.SIGTTOU)


class ChildProcess(SpawnProcess):  # CUDA and OpenCV both break under fork
    """A spawned process; `early_errors` is what it writes to stderr before its worker is loaded.

    It and the programs that its environments start are a process group, and end together.
    """

    early_errors: EarlyErrors | None = None
    socket_folder: Path | None = None  # for the socket of a fork server of its own; whoever ends it removes the folder

    def run(self) -> None:
        os.setpgid(0, 0)
        super().run()

    def kill(self) -> None:
        super().kill()
        assert self.pid is not None
        # Where the process has been reaped and its number exists, that is another process by now.
        if self.exitcode is None or not _exists(self.pid):
            with suppress(ProcessLookupError, PermissionError):  # the group is empty, or has another user's program
                os.killpg(self.pid, signal.SIGKILL)


class ForkedProcess(ForkServerProcess):
    """A process that is forked from a server of its parent's own, which has loaded torch and done nothing with it.

    So it starts in a fiftieth of a second, and shares the memory of the libraries with its siblings. It is in the group
    of its parent, and ends with it.
    """


class Packed:
    """A value that a spawned child unpickles only when it calls `unpack`, not while it starts."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def unpack(self) -> Any:
        return pickle.loads(self._payload)

    def __getstate__(self) -> bytes:
        return bytes(ForkingPickler.dumps(self._value))

    def __setstate__(self, payload: bytes) -> None:
        self._payload = payload


def start_process(worker: Any, name: str, *pipes: Connection) -> tuple[BaseProcess, Connection]:
    """Start a process that runs `worker.run(connection, *pipes)`; return it and the other end of the connection.

    `pipes` are closed here, so that only the process holds them. OSError if the system refuses to start it.
    """
    with ExitStack() as close_on_error, ExitStack() as close_always:
        for pipe in pipes:
            close_always.enter_context(pipe)
        connection, child_end = multiprocessing.Pipe()
        close_always.enter_context(child_end)
        close_on_error.enter_context(connection)
        errors = _make_early_errors()
        arguments = (errors, Packed(worker), child_end, *pipes)
        process = ChildProcess(target=_child_main, args=arguments, name=name, daemon=True)
        # A short name: the whole path of a socket may have 104 bytes, of which macOS itself uses 49.
        with suppress(OSError):  # there is no folder for temporary files, which only real time needs
            process.socket_folder = Path(tempfile.gettempdir()) / f"rl_{secrets.token_hex(4)}"
        with nullcontext() if errors is None else errors.redirected(), _signals_blocked(), _one_thread_of_openblas():
            process.start()
        process.early_errors = errors
        close_on_error.pop_all()
    return process, connection


def fork_process(worker: Any, name: str) -> tuple[BaseProcess, Connection]:
    """As `start_process`, but much faster from the second time on. For workers that use neither CUDA nor OpenCV."""
    multiprocessing.set_forkserver_preload([type(worker).__module__, "workers.processes.fork_server"])
    connection, child_end = multiprocessing.Pipe()
    with child_end, ExitStack() as close_on_error:
        close_on_error.enter_context(connection)
        process = ForkedProcess(target=_child_main, args=(None, Packed(worker), child_end), name=name, daemon=True)
        try:
            with _signals_blocked():
                with _sys_path_inherited(), _socket_in_own_folder():
                    forkserver.ensure_running()
                process.start()
        except EOFError as error:
            raise OSError(errno.ECHILD, "its fork server was killed") from error
        close_on_error.pop_all()
    return process, connection


def unblock_sigterm() -> None:
    """In a child that runs environments: do nothing at SIGTERM, and unblock it.

    The programs that an environment starts would inherit the block, and it could not end them by SIGTERM. They do
    inherit that of the other signals, so that CTRL+C does not end them while the run still needs them.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def end_process(process: BaseProcess, connection: Connection) -> int:
    """Kill the process if it is alive, and the programs of its environments; return its exit code."""
    connection.close()
    process.kill()
    process.join()
    exit_code = process.exitcode
    _remove_sockets(process)
    process.close()
    assert exit_code is not None
    return exit_code


def why_it_ended(process: BaseProcess, exit_code: int) -> str:
    """What a process that ended before its worker was loaded has written to stderr; empty for any other process."""
    return why_not_started(getattr(process, "early_errors", None), exit_code)


def where_it_hangs(process: BaseProcess) -> str:
    """Where a process was when it was interrupted, if it could say so."""
    errors = getattr(process, "early_errors", None)
    return "" if errors is None else place_in(errors.text())


def _make_early_errors() -> EarlyErrors | None:
    """None where there is no stderr, or no place for a temporary file: processes start without it, too."""
    try:
        return EarlyErrors()
    except OSError:
        return None


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the signals that a terminal or a scheduler sends to all processes of a run; a child inherits the block.

    Only the parent handles them. Children end with it, or are killed by it.
    """
    with warnings.catch_warnings():
        # Where no process can be started, that of multiprocessing cannot either; the child's own error is shown.
        warnings.filterwarnings("ignore", "resource_tracker: process died", UserWarning)
        # Otherwise the first child's start would start it, which unblocks the signals.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a worker, which starts processes too, keeps its block


@contextmanager
def _inherited(name: str, value: str) -> Iterator[None]:
    """Only a process that is started in the block inherits this value of an environment variable."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _one_thread_of_openblas() -> AbstractContextManager[None]:
    """numpy would start a thread for each core when it is imported, in each of as many processes."""
    return _inherited("OPENBLAS_NUM_THREADS", os.environ.get("OPENBLAS_NUM_THREADS", "1"))


def _sys_path_inherited() -> AbstractContextManager[None]:
    """In Python 3.11, the fork server finds the modules that it shall load by PYTHONPATH alone.

    Only the server inherits it: a program that an environment starts may have another Python.
    """
    return _inherited("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


@contextmanager
def _socket_in_own_folder() -> Iterator[None]:
    """A fork server has its socket in the temporary folder of its parent, which does not end by itself but is killed.

    So this folder is one that others remove.
    """
    folder = getattr(multiprocessing.current_process(), "socket_folder", None)
    if folder is None:
        yield
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _remove_sockets(process: BaseProcess) -> None:
    folder = getattr(process, "socket_folder", None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _child_main(errors: EarlyErrors | None, packed_worker: Packed, connection: Connection, *pipes: Connection) -> None:
    """Unpickle the worker and run it until the parent closes the connection; send an exception to the parent."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    multiprocessing.current_process().daemon = False  # a worker, or an environment, may start processes of its own
    try:
        worker = packed_worker.unpack()
        if errors is not None:
            accept_interrupts(errors.end())
        worker.run(connection, *pipes)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException as error:
        signal.pthread_sigmask(signal.SIG_BLOCK, [INTERRUPT])
        _end_programs()
        send_error(connection, _in_words(error))
        os._exit(1)
    _end_programs()


def _in_words(error: BaseException) -> str:
    if isinstance(error, EnvironmentFaultError):
        return error.report
    if isinstance(error, UserCodeError):
        return f"{error.details}{error}\n"
    return traceback.format_exc()


def _exit_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connections.wait([parent.sentinel])
    _remove_sockets(multiprocessing.current_process())
    with suppress(ProcessLookupError):  # it has no group of its own
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _end_programs() -> None:
    """End the programs that the environments of this process have started, but not the process itself."""
    _remove_sockets(multiprocessing.current_process())  # first: without a parent, this process ends, too
    with suppress(OSError):  # the parent has ended: so does this process
        os.setpgid(0, os.getpgid(os.getppid()))
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(os.getpid(), signal.SIGKILL)


def _exists(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
