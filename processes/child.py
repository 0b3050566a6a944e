"""One child process, as its parent sees it: how it is started, how it ends, and what it says about that.

A child is a new program, or is forked by one that has not begun to use CUDA or OpenCV (`processes.fork_server`), which
break in a fork of a process that uses them. It and the programs that its environments start are one process group, and
end together. It ends when its parent ends, for whatever reason: then nobody holds the other end of its lifeline, a
pipe. Nothing of the parent is changed to start it, so that any thread can do it.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from processes.handover import packed
from processes.inside import ASK_WHERE
from processes.messages import Kind, send
from processes.printed import Printed

PARENT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
FIRST_WORDS = """\
import pickle, sys
with open(int(sys.argv[1]), "rb", closefd=False) as file:
    sys.path[:] = pickle.load(file)
from processes.inside import main
main()
"""
ANSWER_SECONDS, LOOK_SECONDS = 1.0, 0.02  # in which a child can say where it hangs
MOST_PLACES = 12


class Work(Protocol):
    """What a child does. It is pickled for it; a pipe in it belongs to the child from then on."""

    def run(self, connection: Connection) -> None: ...


@dataclass(frozen=True)
class Call:
    """Calls a function with a connection. Its module is loaded in the child alone: torch takes seconds and memory."""

    module: str
    function: str
    arguments: tuple[Any, ...]

    def run(self, connection: Connection) -> None:
        getattr(import_module(self.module), self.function)(connection, *self.arguments)


class Process(Protocol):
    """`subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


Launch = Callable[[str, Sequence[int]], Process]  # (name, open files for it) → process


class Child:
    """A running child, until `end`."""

    def __init__(self, process: Process, connection: Connection, lifeline: int, printed: Printed) -> None:
        self.connection = connection
        self._process = process
        self._lifeline = lifeline
        self.printed = printed

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, kind: Kind, index: int = 0, payload: Any = None) -> None:
        """Send a message. A child that has just died does not get it, which whoever receives from it notices."""
        with suppress(BrokenPipeError, ConnectionResetError):
            send(self.connection, kind, index, payload)

    def kill(self) -> None:
        """Kill the process and the programs of its environments."""
        with suppress(ProcessLookupError, PermissionError):  # the group is empty, or has another user's program
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()

    def end(self, grace: float = 0.0) -> tuple[int, str]:
        """End it, if it does not within `grace` seconds; return its exit code, and the last lines that it printed."""
        self.connection.close()
        if grace:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        self.kill()
        exit_code = self._process.wait()
        os.close(self._lifeline)
        said = self.printed.last_lines()
        self.printed.close()
        return exit_code, said

    def where_it_hangs(self) -> str:
        """The lines of code that it executes, most recent call first; empty if it does not answer, as when stopped."""
        begin = self.printed.size
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(self.pid, ASK_WHERE)
        deadline, before = time.monotonic() + ANSWER_SECONDS, begin
        while time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            size = self.printed.size
            if size == before > begin:  # it has written all
                break
            before = size
        return "\n".join(re.findall(r'^  File ".*', self.printed.since(begin), re.MULTILINE)[:MOST_PLACES])


def spawn(name: str, files: Sequence[int]) -> Process:
    """Start a program that runs `inside.main`. OSError if the system refuses it."""
    words = [sys.executable, "-c", FIRST_WORDS, *map(str, files), name]
    # numpy would start a thread for each core when it is imported, in each of as many processes.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS", "1")}
    printed = files[3]
    # A terminal or a scheduler sends these signals to all processes of a run, and only the parent handles them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PARENT_SIGNALS)
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            env=environment,
            pass_fds=files,
            process_group=0,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a worker, which starts processes too, keeps its block


def start_child(work: Any, name: str, launch: Launch = spawn, logs: Path | None = None) -> Child:
    """Start a process that does `work.run(connection)`; OSError if the system refuses to start it.

    What it prints goes to a file in the folder `logs`, with its name.
    """
    with ExitStack() as always, ExitStack() as on_error:
        content, *handed = always.enter_context(packed([str(Path(place).absolute()) for place in sys.path], work))
        connection, child_end = Pipe()
        always.enter_context(child_end)
        on_error.enter_context(connection)
        child_lifeline, lifeline = os.pipe()
        always.callback(os.close, child_lifeline)
        on_error.callback(os.close, lifeline)
        file_name = name.removeprefix("the ").replace(" ", "_")
        printed = Printed(None if logs is None else logs / f"{file_name}.txt")
        on_error.callback(printed.close)
        files = [content, child_end.fileno(), child_lifeline, printed.file, *handed]
        child = Child(launch(name, files), connection, lifeline, printed)
        on_error.pop_all()
        return child
