"""The object of an actor on a node that runs a program there: main.py, as one learner or as a run of a sweep.

Its methods are called from afar, and a call whose answer is lost with the network is made again.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cluster import guard
from run_files.run_folder import CHECKPOINTS, numbered_checkpoints, write_atomically

GROWING = (".jsonl", ".csv", ".txt")  # files that are only added to; so are those of TensorBoard
MOST_BYTES = 64 << 20  # of one answer, unless a single file is larger


class Stamp(NamedTuple):
    """By which one sees that a file has changed."""

    size: int
    modified: int  # nanoseconds
    inode: int


class Change(NamedTuple):
    """What is new of a file: its end from `offset` on, or with an offset of 0 all of it."""

    name: str
    stamp: Stamp
    offset: int
    content: bytes


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

    def news(
        self, folder: str, known: Mapping[str, Stamp], apart: Collection[str] = ()
    ) -> tuple[int | None, set[str], list[Change]]:
        """The exit code, or None while it runs; then all files of a folder, and what is new of those in its files.

        `known` are the stamps of the files that the other side has, `apart` folders in it that do not matter. What is
        changed first comes first, and some of it only with the next call if it is much.
        """
        self.signal(0)  # which the program does not notice
        ended = self._folder / guard.EXIT_CODE
        code = ended.read_text() if ended.exists() else ""
        top, stamps = self._place / folder, dict[str, Stamp]()
        for parent, _, names in os.walk(top):
            for path in (Path(parent, name) for name in names if not name.endswith(".tmp")):
                name = str(path.relative_to(top))
                with suppress(FileNotFoundError):  # removed meanwhile
                    if not path.is_symlink() and path.relative_to(top).parts[0] not in apart:
                        stamps[name] = _stamp(path.stat())
        changes: list[Change] = []
        for name in sorted(stamps, key=lambda each: stamps[each].modified):
            if stamps[name] != known.get(name) and sum(len(each.content) for each in changes) < MOST_BYTES:
                with suppress(FileNotFoundError):
                    changes.append(_change(top, name, known.get(name)))
        return int(code) if code else None, set(stamps), changes

    # --- Files are named by their paths below the place, or by absolute ones ------------------------------------------

    def read(self, name: str) -> bytes:
        return (self._place / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        path = self._place / name
        path.parent.mkdir(parents=True, exist_ok=True)
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


def _change(folder: Path, name: str, before: Stamp | None) -> Change:
    with (folder / name).open("rb") as file:
        stamp, grows = _stamp(os.fstat(file.fileno())), name.endswith(GROWING) or "tfevents" in name
        offset = before.size if before is not None and grows and before.size <= stamp.size else 0
        file.seek(offset)
        content = file.read()
    return Change(name, stamp._replace(size=offset + len(content)), offset, content)
