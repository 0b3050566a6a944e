"""Starts a run on a node, and ends it when nobody wants it any more.

`python guard.py <folder>` reads one JSON object a line from its standard input: {"start": [words]}, which it runs in
the folder, and {"signal": number}. It writes the process id of the run to `<folder>/pid`, and its exit code to
`<folder>/exit_code`. When its input is
closed, because the process that started it has ended, however it ended, it kills the run and removes the folder.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

PROCESS_ID = "pid"  # the file with the process id of the run
POLL_SECONDS = 0.1
REMOVE_SECONDS = 10.0  # for which processes that end may still write files


class Guard:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: subprocess.Popen[bytes] | None = None

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
            with open(self._folder / "results" / "log.txt", "ab") as log:
                self._run = subprocess.Popen(
                    command["start"],
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            (self._folder / PROCESS_ID).write_text(str(self._run.pid))
        elif self._run is not None and self._run.poll() is None:
            self._run.send_signal(command["signal"])

    def _note_end(self) -> None:
        file = self._folder / "exit_code"
        if self._run is not None and self._run.poll() is not None and not file.exists():
            temporary = self._folder / "exit_code.tmp"
            temporary.write_text(str(self._run.returncode))
            temporary.replace(file)

    def _end(self) -> None:
        if self._run is not None:
            with suppress(ProcessLookupError):  # its whole group has ended
                os.killpg(self._run.pid, signal.SIGKILL)
            self._run.wait()
        deadline = time.monotonic() + REMOVE_SECONDS
        while self._folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(self._folder, ignore_errors=True)
            time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    # In a session of its own and no child of the process that started it: Ray kills the children of its workers.
    os.setsid()
    # Ray's workers ignore or block signals, which their children inherit.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if os.fork() == 0:
        Guard(Path(sys.argv[1])).serve()
