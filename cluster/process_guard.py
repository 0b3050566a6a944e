"""Starts a program on a node, and ends it when nobody wants it any more.

`python process_guard.py <folder>` reads one JSON object a line from its standard input: {"start": ...}, which is what
`GuardedProgram.start` sends, and {"signal": number}. It writes the process id of the program to `<folder>/pid`, and its
exit code to `<folder>/exit_code`; or to `<folder>/error` why it could not be started. When its input is closed, because
the process that started it has ended, however it ended, it ends the program and removes the folder.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

PROCESS_ID = "pid"  # the file with the process id of the program
ERROR = "error"  # the file that says why the program could not be started
POLL_SECONDS = 0.1
REMOVE_SECONDS = 10.0  # for which processes that end may still write files


class Guard:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._seconds_to_end = 0.0

    def serve(self) -> None:
        unread = b""
        while True:
            if select.select([0], [], [], POLL_SECONDS)[0]:
                received = os.read(0, 1 << 16)
                if not received:
                    break
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))
            self._note_end()
        self._end()

    def _obey(self, command: dict[str, Any]) -> None:
        if "start" in command:
            try:
                self._start(**command["start"])
            except OSError as error:
                name = Path(command["start"]["words"][1]).name
                write_at_once(self._folder / ERROR, f"{name} cannot start there: {error}")
        elif self._run is not None and self._run.poll() is None:
            self._run.send_signal(command["signal"])

    def _start(
        self,
        words: list[str],
        cwd: str,
        files: list[str],  # for stdout and stderr
        environment: dict[str, str],  # added to that of this process
        written: dict[str, str],  # variables with the descriptors of files that are opened for the program
        lifeline: str | None,  # the variable with the descriptor of a pipe that is closed when it has to end
        seconds_to_end: float,  # after which it is killed
    ) -> None:
        variables = {**os.environ, **environment}
        with ExitStack() as stack:
            stdout, stderr, *others = (stack.enter_context(open(path, "ab")) for path in (*files, *written.values()))
            passed = {name: file.fileno() for name, file in zip(written, others, strict=True)}
            if lifeline is not None:
                passed[lifeline], self._lifeline = os.pipe()
                stack.callback(os.close, passed[lifeline])
            self._seconds_to_end = seconds_to_end
            self._run = subprocess.Popen(
                words,
                cwd=cwd,
                env={**variables, **{name: str(number) for name, number in passed.items()}},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=tuple(passed.values()),
                start_new_session=True,
            )
        (self._folder / PROCESS_ID).write_text(str(self._run.pid))

    def _note_end(self) -> None:
        file = self._folder / "exit_code"
        if self._run is not None and self._run.poll() is not None and not file.exists():
            write_at_once(file, str(self._run.returncode))

    def _end(self) -> None:
        if self._run is not None:
            if self._lifeline is not None:
                os.close(self._lifeline)
                with suppress(subprocess.TimeoutExpired):
                    self._run.wait(self._seconds_to_end)
            kill_session(self._run.pid)
            self._run.wait()
        deadline = time.monotonic() + REMOVE_SECONDS
        while self._folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(self._folder, ignore_errors=True)
            time.sleep(POLL_SECONDS)


def kill_session(leader: int) -> None:
    """Kill a program that leads a session, and all processes in it: workers have groups of their own."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            # After the name, which may contain anything: state, parent, group, session.
            if int(status.read_text().rpartition(")")[2].split()[3]) == leader:
                os.kill(int(status.parent.name), signal.SIGKILL)
    with suppress(ProcessLookupError):  # its whole group has ended
        os.killpg(leader, signal.SIGKILL)


def write_at_once(path: Path, text: str) -> None:
    """So that nobody reads half of it."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)


if __name__ == "__main__":
    # In a session of its own and no child of the process that started it: Ray kills the children of its workers.
    os.setsid()
    # Ray's workers ignore or block signals, which their children inherit.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if os.fork() == 0:
        Guard(Path(sys.argv[1])).serve()
