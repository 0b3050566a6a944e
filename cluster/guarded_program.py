"""A program on a node that ends when the Ray actor that owns it ends, however that happens.

The actor starts a guard: this file as a program, outside of its own group and session, because Ray kills the children
of its actors. The guard starts the program, and ends it when its standard input is closed. Ray sends this module to the
nodes by value, so it imports nothing of the platform.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

PROCESS_ID, EXIT_CODE = "pid", "exit_code"  # files in the folder of a program
POLL_SECONDS = 0.1
REMOVE_SECONDS = 10.0  # for which processes that end may still write files


class GuardedProgram:
    """The part of an actor that owns a program and a temporary folder. With the actor, the guard ends both."""

    def __init__(self, checkout: str, uses_gpus: bool, prefix: str) -> None:
        """`prefix` begins the name of the temporary folder."""
        environment = dict(os.environ)
        environment.pop("OMP_NUM_THREADS", None)  # set by Ray
        if not uses_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""  # they are for programs that asked for them
        self._checkout = Path(checkout)
        self._is_started = False
        self._folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._guard = subprocess.Popen(
            [sys.executable, str(self._checkout / "cluster" / "guarded_program.py"), str(self._folder)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def signal(self, number: int) -> None:
        self._tell(signal=number)

    def _start_program(
        self,
        words: Sequence[str],  # the first one is a Python program of the checkout
        *,
        cwd: Path,
        output: Sequence[Path],  # files for stdout and stderr
        environment: Mapping[str, str] | None = None,  # added to that of the actor
        written: Mapping[str, str] | None = None,  # variables with the descriptors of files that the program writes
        # A variable with the descriptor of a pipe that closes when it has to end, and the seconds until it is killed.
        lifeline: tuple[str, float] | None = None,
    ) -> None:
        """A second call does nothing: it is the first one again, whose answer was lost with the network."""
        if self._is_started:
            return
        self._is_started = True
        self._tell(
            start={
                "words": [sys.executable, str(self._checkout / words[0]), *words[1:]],
                "cwd": str(cwd),
                "output": [str(path) for path in output],
                "environment": dict(environment or {}),
                "written": dict(written or {}),
                "lifeline": lifeline,
            }
        )

    def _exit_code(self) -> int | None:
        """None while the program runs. RuntimeError if its guard was killed; then the program is ended, too."""
        try:
            self._tell()
        except BrokenPipeError:
            with suppress(OSError, ValueError):
                os.killpg(int((self._folder / PROCESS_ID).read_text()), signal.SIGKILL)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise RuntimeError("the process that watches it there was killed") from None
        ended = self._folder / EXIT_CODE
        code = ended.read_text() if ended.exists() else ""
        return int(code) if code else None

    def _tell(self, **command: Any) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(json.dumps(command).encode() + b"\n")


class Guard:
    """Starts the program, passes signals on, and notes its exit code. At the end of the input, it ends the program."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program: subprocess.Popen[bytes] | None = None
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
            if self._program is not None and (code := self._program.poll()) is not None:
                self._note_exit_code(code)
        self._end()

    def _obey(self, command: dict[str, Any]) -> None:
        if start := command.get("start"):
            try:
                self._start(**start)
            except OSError as error:
                with suppress(OSError):  # a full disk may be the reason
                    Path(start["output"][1]).write_text(f"{start['words'][1]} cannot start there: {error}\n")
                self._note_exit_code(1)
        elif "signal" in command and self._program is not None and self._program.poll() is None:
            self._program.send_signal(command["signal"])

    def _start(
        self,
        words: list[str],
        cwd: str,
        output: list[str],
        environment: dict[str, str],
        written: dict[str, str],
        lifeline: tuple[str, float] | None,
    ) -> None:
        with ExitStack() as stack:
            stdout, stderr, *others = (stack.enter_context(open(path, "ab")) for path in (*output, *written.values()))
            passed = {name: file.fileno() for name, file in zip(written, others, strict=True)}
            if lifeline is not None:
                variable, self._seconds_to_end = lifeline
                passed[variable], self._lifeline = os.pipe()
                stack.callback(os.close, passed[variable])
            self._program = subprocess.Popen(
                words,
                cwd=cwd,
                env={**os.environ, **environment, **{name: str(number) for name, number in passed.items()}},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=tuple(passed.values()),
                start_new_session=True,
            )
        (self._folder / PROCESS_ID).write_text(str(self._program.pid))

    def _note_exit_code(self, code: int) -> None:
        if not (self._folder / EXIT_CODE).exists():
            (self._folder / EXIT_CODE).write_text(str(code))

    def _end(self) -> None:
        if self._program is not None:
            if self._lifeline is not None:
                os.close(self._lifeline)
                with suppress(subprocess.TimeoutExpired):
                    self._program.wait(self._seconds_to_end)
            with suppress(ProcessLookupError):  # its workers end by themselves
                os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()
        deadline = time.monotonic() + REMOVE_SECONDS
        while self._folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(self._folder, ignore_errors=True)
            time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    os.setsid()
    # Ray's workers ignore or block signals, which their children inherit.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if os.fork() == 0:
        Guard(Path(sys.argv[1])).serve()
