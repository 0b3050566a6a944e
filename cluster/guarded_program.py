"""The part of a Ray actor that owns a program on its node.

Ray sends this class to the node by value, so it imports nothing of the platform.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


class GuardedProgram:
    """A program and a temporary folder, which belong to a guard process: it ends both when this actor has ended."""

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
            [sys.executable, str(self._checkout / "cluster" / "process_guard.py"), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def signal(self, number: int) -> None:
        self._tell(signal=number)

    def _start_program(
        self,
        program: str,  # relative to the checkout
        words: Sequence[str],
        *,
        cwd: Path,
        stdout: Path,
        stderr: Path,
        environment: Mapping[str, str] | None = None,
        written: Mapping[str, str] | None = None,
        lifeline: str | None = None,
        seconds_to_end: float = 0.0,
    ) -> None:
        """Start a Python program of the checkout. The last four are described in process_guard.py.

        A second call does nothing: it is the first one again, whose answer was lost with the network.
        """
        if self._is_started:
            return
        self._is_started = True
        self._tell(
            start={
                "words": [sys.executable, str(self._checkout / program), *words],
                "cwd": str(cwd),
                "files": [str(stdout), str(stderr)],
                "environment": dict(environment or {}),
                "written": dict(written or {}),
                "lifeline": lifeline,
                "seconds_to_end": seconds_to_end,
            }
        )

    def _exit_code(self) -> int | None:
        """None while the program runs."""
        self._check_guard()
        failed = self._folder / "error"
        if failed.exists():
            raise RuntimeError(failed.read_text())
        ended = self._folder / "exit_code"
        return int(ended.read_text()) if ended.exists() else None

    def _check_guard(self) -> None:
        """Without its guard, nobody would end the program or notice its end; then it is ended here."""
        assert self._guard.stdin is not None
        pipe = select.poll()
        pipe.register(self._guard.stdin, 0)
        if not pipe.poll(0):  # it is broken only if nobody can read from it any more
            return
        with suppress(OSError, ValueError):
            os.killpg(int((self._folder / "pid").read_text()), signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)
        raise RuntimeError("the process that watches it there was killed")

    def _tell(self, **command: Any) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(json.dumps(command).encode() + b"\n")
        self._guard.stdin.flush()
