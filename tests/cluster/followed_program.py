"""A program in a process group of its own, whose output a test follows."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from tests.cluster.some_nodes import ROOT


class FollowedProgram:
    """Python with these words; a thread collects the lines that it prints."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def close(self) -> None:
        """Kill the group, if the program still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
