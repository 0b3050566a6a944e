"""The process between the actor of a node and its program: it ends the program when the actor has ended.

The actor starts it outside of its own group and session, because Ray kills the children of its actors. When the actor
has ended, however that happens, the guard's standard input does too. It imports nothing of the platform.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

EXIT_CODE = "exit_code"  # a file in the folder of the program
REMOVE_SECONDS = 10.0  # for which processes that end may still write files


def guard(folder: Path, words: Sequence[str]) -> None:
    """Run the program, pass signals on, and note its exit code. At the end of the input, kill it, and its folder."""
    program = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=lambda: (folder / EXIT_CODE).write_text(str(program.wait())), daemon=True).start()
    while received := os.read(0, 1):
        program.send_signal(received[0])
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
        guard(Path(sys.argv[1]), sys.argv[2:])
