"""A training run in a process group of its own, for `tests.chaos`."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.processes import signal_session

ROOT = Path(__file__).resolve().parents[1]


class BrokenGuaranteeError(Exception):
    """A run did something that it must never do."""


@dataclass
class Run:
    """One training process and its workers."""

    command: Sequence[str]
    log: Path

    def __post_init__(self) -> None:
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def members(self) -> list[psutil.Process]:
        """The processes of the session that have not ended, the learner included."""
        members = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return members

    def workers(self) -> list[psutil.Process]:
        workers = []
        for member in self.members():
            try:
                if "processes.inside" in " ".join(member.cmdline()):
                    workers.append(member)
            except psutil.NoSuchProcess:
                continue
        return workers

    def wait_until_signals_are_handled(self) -> None:
        """Wait until main.py handles signals; before that, the Python interpreter starts."""
        terminate = 1 << (signal.SIGTERM - 1)
        status = Path(f"/proc/{self.process.pid}/status")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            caught = next((line for line in status.read_text().splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
            if int(caught.split()[1], 16) & terminate:
                return
            time.sleep(0.005)
        raise BrokenGuaranteeError("main.py ended, or hung, before it did anything")

    def signal_all(self, number: signal.Signals) -> None:
        signal_session(self.process.pid, number)

    def wait_for(self, words: str, seconds: float) -> bool:
        """Whether the words are printed within so many seconds."""
        deadline = time.monotonic() + seconds
        while words not in self.output:
            if time.monotonic() > deadline or self.process.poll() is not None:
                return False
            time.sleep(0.01)
        return True

    def wait_until_gone(self, seconds: float) -> float:
        """Wait until no process of the session is left; return the seconds that it took."""
        started_at = time.monotonic()
        while True:
            left = self.members()
            if self.process.poll() is not None and not left:
                return time.monotonic() - started_at
            if time.monotonic() - started_at > seconds:
                raise BrokenGuaranteeError(f"{len(left)} processes are left after {seconds:g} s: {left}")
            time.sleep(0.01)

    def end(self) -> None:
        """Kill all that is left of the run."""
        for member in self.members():
            member.kill()
        self.process.wait()
