"""The Ray actor that owns one run on a node.

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
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = "results"  # of a run, in its temporary folder


class Stamp(NamedTuple):
    """By which one sees that a file has changed."""

    size: int
    modified: int  # nanoseconds
    inode: int


class NodeJob:
    """A run in a temporary folder of its node: its files are sent, read and removed from afar.

    The folder and the run belong to a guard process, which ends both as soon as this actor has ended.
    """

    def __init__(self, checkout: str, uses_gpus: bool) -> None:
        environment = dict(os.environ)
        environment.pop("OMP_NUM_THREADS", None)  # set by Ray
        if not uses_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""  # they are for runs that asked for them
        self._checkout = Path(checkout)
        self._folder = Path(tempfile.mkdtemp(prefix="rl_sweep_"))
        self._files = self._folder / RESULTS
        self._files.mkdir()
        self._guard = subprocess.Popen(
            [sys.executable, str(self._checkout / "sweeps" / "on_cluster" / "guard.py"), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def folder(self) -> str:
        """Where the run's files are."""
        return str(self._files)

    def make_folder(self, name: str) -> None:
        (self._files / name).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, offset: int, content: bytes) -> None:
        """Write a part of a file; the parts come in order."""
        path = self._files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(content)

    def start(self, program: str, words: list[str]) -> None:
        """Start the program of the checkout in the temporary folder, so that `words` have no path of this node."""
        self._tell(start=[sys.executable, str(self._checkout / program), *words])

    def signal(self, number: int) -> None:
        self._tell(signal=number)

    def state(self) -> tuple[int | None, dict[str, Stamp]]:
        """The exit code, or None while it runs; then all files, as they were not before that."""
        self._check_guard()
        ended = self._folder / "exit_code"
        code = int(ended.read_text()) if ended.exists() else None
        return code, dict(self._stamps(self._files))

    def read(self, name: str, stamp: Stamp | None, offset: int, count: int) -> bytes | None:
        """A part of a file. None if the file has changed since it had this stamp; without one, it may change."""
        try:
            with (self._files / name).open("rb") as file:
                if stamp is not None and _stamp(os.fstat(file.fileno())) != stamp:
                    return None
                file.seek(offset)
                return file.read(count)
        except FileNotFoundError:
            return None

    def _check_guard(self) -> None:
        """Without its guard, nobody would end the run or notice its end; then it is ended here."""
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

    def _stamps(self, folder: Path) -> list[tuple[str, Stamp]]:
        found: list[tuple[str, Stamp]] = []
        for path in folder.iterdir():
            if path.is_symlink():
                continue
            if path.is_dir():
                found += self._stamps(path)
            elif not path.name.endswith(".tmp"):
                try:
                    found.append((str(path.relative_to(self._files)), _stamp(path.stat())))
                except FileNotFoundError:  # removed meanwhile
                    continue
        return found


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)
