"""What a child process writes to stderr before its worker is loaded: why it could not start.

The parent keeps it, so that the reason is shown once, not by each process that is started again.
"""

import os
import re
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from multiprocessing.reduction import DupFd
from typing import Any

STDERR = 2
VALUES = re.compile(r"""'[^']*'|"[^"]*"|0x[0-9a-fA-F]+|\d+""")  # the quoted names and the numbers of a message
LONGEST = 8_000  # bytes that are kept of the end
NOT_EXECUTED = 255  # the exit code of a process whose program could not be executed


class EarlyErrors:
    """Takes the place of a child's stderr while the child starts. Pickled for the child, it gives stderr back."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._stderr = os.dup(STDERR)

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """A process that is started in the block inherits the file as its stderr."""
        os.dup2(self._file, STDERR)
        try:
            yield
        finally:
            os.dup2(self._stderr, STDERR)
            os.close(self._stderr)

    def __getstate__(self) -> dict[str, Any]:
        return {"stderr": DupFd(self._stderr)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._stderr = state["stderr"].detach()

    def end(self) -> int:
        """In the child: what was written so far goes to stderr, and so does everything from now on.

        Returns the file, which is empty now, for words that only the parent shall read.
        """
        sys.stderr.flush()
        size = os.lseek(STDERR, 0, os.SEEK_END)
        early = os.pread(STDERR, size, 0)
        os.ftruncate(STDERR, 0)
        os.lseek(STDERR, 0, os.SEEK_SET)
        file = os.dup(STDERR)
        os.dup2(self._stderr, STDERR)
        os.close(self._stderr)
        os.write(STDERR, early)
        return file

    def text(self) -> str:
        """In the parent: what the child has written, or nothing if it has been loaded."""
        size = os.lseek(self._file, 0, os.SEEK_END)
        return os.pread(self._file, LONGEST, max(0, size - LONGEST)).decode(errors="replace").strip()


def why_not_started(errors: EarlyErrors | None, exit_code: int) -> str:
    """Why a process ended before its worker was loaded; empty if nothing is known."""
    if errors is None:
        return ""
    said = errors.text()
    if said or exit_code != NOT_EXECUTED:
        return said
    program = os.fsdecode(spawn.get_executable())
    try:  # multiprocessing does not pass on the error of the system; the same try again shows it
        subprocess.run([program, "-c", ""], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be started ({getattr(error, 'strerror', None) or error})"
    return ""


def reason(said: str) -> str:
    """The line of an output that says most about why a process ended."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "cannot" in line.lower()]
    return (telling or lines or [""])[-1]


def kind_of_error(reason: str) -> str:
    """The reason without its values, such as a process id, in which the same error differs between two processes."""
    return VALUES.sub("*", reason)


class KindsOfErrors:
    """Those that were said already, so that each one is said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def is_new(self, text: str) -> bool:
        """Whether this is the first text of its kind since the beginning, or since `clear`."""
        kind = kind_of_error(text)
        if kind in self._said:
            return False
        self._said.add(kind)
        return True

    def clear(self) -> None:
        self._said.clear()
