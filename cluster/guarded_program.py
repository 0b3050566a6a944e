"""The object of an actor on a node that runs a program there: main.py, as a run of a sweep.

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
from run_files.run_folder import write_atomically

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

    def __init__(self, uses_gpus: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rl_program_"))
        self._environment = dict(os.environ)
        self._environment.pop("OMP_NUM_THREADS", None)  # set by Ray
        if not uses_gpus:
            self._environment["CUDA_VISIBLE_DEVICES"] = ""  # they are for programs that asked for them
        self._to_guard: int | None = None  # a pipe for signals

    def folder(self) -> str:
        """The temporary one, in which it runs."""
        return str(self._folder)

    def start(self, words: Sequence[str], log: str) -> None:
        """Start the program, if it has not been. The first word is a Python program of the checkout.

        `log` is a file for what it prints.
        """
        if self._to_guard is not None:
            return
        program = [sys.executable, str(Path.cwd() / words[0]), *words[1:]]
        path = self._folder / log
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as printed:
            from_actor, to_guard = os.pipe()
            subprocess.run(  # returns at once, while the guard goes on
                [sys.executable, guard.__file__, str(self._folder), *program],
                cwd=self._folder,
                env=self._environment,
                stdin=from_actor,
                stdout=printed,
                stderr=printed,
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
        top, stamps = self._folder / folder, dict[str, Stamp]()
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

    def write(self, name: str, content: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)


def _change(folder: Path, name: str, before: Stamp | None) -> Change:
    with (folder / name).open("rb") as file:
        stamp, grows = _stamp(os.fstat(file.fileno())), name.endswith(GROWING) or "tfevents" in name
        offset = before.size if before is not None and grows and before.size <= stamp.size else 0
        file.seek(offset)
        content = file.read()
    return Change(name, stamp._replace(size=offset + len(content)), offset, content)
