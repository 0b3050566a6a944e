"""A program on a node that ends when the Ray actor that owns it ends, however that happens.

The actor starts it through a guard: this file as a program, outside of its own group and session, because Ray kills the
children of its actors. When the actor has ended, the guard's standard input does too, and the guard ends the program.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

EXIT_CODE = "exit_code"  # a file in the folder of a program
REMOVE_SECONDS = 10.0  # for which processes that end may still write files


class GuardedProgram:
    """A program of this checkout, and its temporary folder. With the actor, the guard ends both."""

    def __init__(self, prefix: str, uses_gpus: bool) -> None:
        """`prefix` begins the name of the temporary folder."""
        self._folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._environment = dict(os.environ)
        self._environment.pop("OMP_NUM_THREADS", None)  # set by Ray
        if not uses_gpus:
            self._environment["CUDA_VISIBLE_DEVICES"] = ""  # they are for programs that asked for them
        self._to_guard: int | None = None  # a pipe for signals

    def start_program(
        self,
        words: Sequence[str],  # the first one is a Python program of the checkout, where the actor is
        cwd: Path,
        output: tuple[Path, Path],  # files for stdout and stderr
        environment: Mapping[str, str],  # added to that of the actor
        seconds_to_end: float,  # after which it is killed, if its actor has ended
    ) -> None:
        """A second call does nothing: it is the first one again, whose answer was lost with the network."""
        if self._to_guard is not None:
            return
        program = [sys.executable, str(Path.cwd() / words[0]), *words[1:]]
        with output[0].open("ab") as stdout, output[1].open("ab") as stderr:
            from_actor, to_guard = os.pipe()
            subprocess.run(  # returns at once, while the guard goes on
                [sys.executable, __file__, str(self._folder), str(seconds_to_end), *program],
                cwd=cwd,
                env={**self._environment, **environment},
                stdin=from_actor,
                stdout=stdout,
                stderr=stderr,
                check=True,
            )
        os.close(from_actor)
        self._to_guard = to_guard

    def signal(self, number: int) -> None:
        """Send a signal to the program, if it runs. A BrokenPipeError says that its guard was killed."""
        if self._to_guard is not None:
            os.write(self._to_guard, bytes([number]))

    def exit_code(self) -> int | None:
        """None while the program runs. BrokenPipeError if its guard was killed."""
        self.signal(0)  # which the program does not notice
        ended = self._folder / EXIT_CODE
        code = ended.read_text() if ended.exists() else ""
        return int(code) if code else None


def guard(folder: Path, seconds_to_end: float, words: Sequence[str]) -> None:
    """Run the program, pass signals on, and note its exit code. At the end of the input, end it."""
    program = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=lambda: (folder / EXIT_CODE).write_text(str(program.wait())), daemon=True).start()
    while received := os.read(0, 1):
        program.send_signal(received[0])
    program.terminate()
    with suppress(subprocess.TimeoutExpired):
        program.wait(seconds_to_end)
    with suppress(ProcessLookupError):  # its workers end by themselves
        os.killpg(program.pid, signal.SIGKILL)
    deadline = time.monotonic() + REMOVE_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


if __name__ == "__main__":
    os.setsid()
    # Ray's workers ignore or block signals, which their children inherit.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if os.fork() == 0:
        guard(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
