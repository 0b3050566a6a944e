"""The object of an actor on a node that runs a program there: main.py, as one learner or as a run of a sweep.

Its methods are called from afar, and a call whose answer is lost with the network is made again.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cluster import guard
from run_files.run_folder import CHECKPOINTS, numbered_checkpoints, write_atomically


class Stamp(NamedTuple):
    """By which one sees that a file has changed."""

    size: int
    modified: int  # nanoseconds
    inode: int


class GuardedProgram:
    """A program of this checkout with a temporary folder. With the actor, its guard ends both."""

    def __init__(self, uses_gpus: bool, place: str | None = None) -> None:
        """It runs in the folder `place`: by default the temporary one, or the checkout where this folder is missing."""
        self._folder = Path(tempfile.mkdtemp(prefix="rl_program_"))
        self._place = self._folder
        if place is not None:
            self._place = Path(place) if os.access(place, os.W_OK | os.X_OK) else Path.cwd()
        self._environment = dict(os.environ)
        self._environment.pop("OMP_NUM_THREADS", None)  # set by Ray
        if not uses_gpus:
            self._environment["CUDA_VISIBLE_DEVICES"] = ""  # they are for programs that asked for them
        self._to_guard: int | None = None  # a pipe for signals

    def folder(self) -> str:
        """The temporary one."""
        return str(self._folder)

    def gpus(self) -> str:
        """Those that Ray has reserved, as in CUDA_VISIBLE_DEVICES."""
        return self._environment.get("CUDA_VISIBLE_DEVICES", "")

    def start(
        self,
        words: Sequence[str],  # the first one is a Python program of the checkout, where the actor is
        output: tuple[str, str],  # files for stdout and stderr
        variables: Mapping[str, str],  # environment variables, added to those of the actor
        seconds_to_end: float,  # after which it is killed, if its actor has ended
    ) -> None:
        """Start the program, if it has not been."""
        if self._to_guard is not None:
            return
        program = [sys.executable, str(Path.cwd() / words[0]), *words[1:]]
        stdout_path, stderr_path = (self._place / name for name in output)
        stdout_path.parent.mkdir(exist_ok=True)
        with stdout_path.open("ab") as stdout, stderr_path.open("ab") as stderr:
            from_actor, to_guard = os.pipe()
            subprocess.run(  # returns at once, while the guard goes on
                [sys.executable, guard.__file__, str(self._folder), str(seconds_to_end), *program],
                cwd=self._place,
                env={**self._environment, **variables},
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

    def state(self, folder: str) -> tuple[int | None, dict[str, Stamp]]:
        """The exit code, or None while it runs; then all files of a folder, as they were not before that."""
        self.signal(0)  # which the program does not notice
        ended = self._folder / guard.EXIT_CODE
        code = ended.read_text() if ended.exists() else ""
        stamps: dict[str, Stamp] = {}
        for parent, _, names in os.walk(self._place / folder):
            for path in (Path(parent, name) for name in names if not name.endswith(".tmp")):
                with suppress(FileNotFoundError):  # removed meanwhile
                    if not path.is_symlink():
                        stamps[str(path.relative_to(self._place / folder))] = _stamp(path.stat())
        return int(code) if code else None, stamps

    # --- Files are named by their paths below the place, or by absolute ones ------------------------------------------

    def read(self, name: str, stamp: Stamp | None, offset: int, count: int) -> bytes | None:
        """A part of a file. None if the file has changed since it had this stamp; without one, it may change."""
        try:
            with (self._place / name).open("rb") as file:
                if stamp is not None and _stamp(os.fstat(file.fileno())) != stamp:
                    return None
                file.seek(offset)
                return file.read(count)
        except FileNotFoundError:
            return None

    def write(self, name: str, offset: int, content: bytes) -> None:
        """Write a part of a file; the parts come in order. A file of one part is complete, or not there."""
        path = self._place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if offset:
            with path.open("r+b") as file:
                file.seek(offset)
                file.write(content)
        else:
            write_atomically(path, content)

    def newest_checkpoint(self, place: str) -> str:
        return newest_checkpoint(self._place / place)


def newest_checkpoint(place: Path) -> str:
    """The path below `place` of the checkpoint that --load_model_url=<place> means; empty if there is none."""
    if place.is_file():
        return "."
    folder = place / CHECKPOINTS if (place / CHECKPOINTS).is_dir() else place
    return "".join(str(path.relative_to(place)) for path in numbered_checkpoints(folder)[:1])


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)
