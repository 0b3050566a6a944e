"""What a child process prints: where it is kept, and how much of it a sentence quotes."""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from processes.handover import nameless_file

LARGEST = 10_000_000  # bytes of a file, after which it begins anew: an environment may print in each step
QUOTED_BYTES, QUOTED_LINES = 4_000, 12  # at most, of the end
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -~])")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the tab and the end of a line
VALUES = re.compile(r"""'[^']*'|"[^"]*"|0x[0-9a-fA-F]+|\d+""")  # the quoted names and the numbers of a message


class Printed:
    """The file that takes the standard output and the errors of one process after another: a log, or a nameless one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.file = _opened(path)
        self._begin = os.fstat(self.file).st_size

    @property
    def size(self) -> int:
        return os.fstat(self.file).st_size

    def since(self, place: int) -> str:
        """What was printed after the first `place` bytes of the file."""
        return os.pread(self.file, max(0, self.size - place), place).decode(errors="replace")

    def last_lines(self) -> str:
        """The end of what this process has printed, as plain text."""
        said = plain_text(self.since(max(self._begin, self.size - QUOTED_BYTES)))
        return "\n".join(said.strip().splitlines()[-QUOTED_LINES:])

    def limit(self) -> None:
        """Begin anew if it is too large."""
        if self.size > LARGEST:
            os.ftruncate(self.file, 0)
            self._begin = 0

    def close(self) -> None:
        """Close the file. One that is empty is removed, and so is the folder if it has no other."""
        if self._path is not None and not self.size:
            self._path.unlink(missing_ok=True)
            with suppress(OSError):
                self._path.parent.rmdir()
        os.close(self.file)


def plain_text(text: str) -> str:
    """Text without what would control a terminal; of a line that was overwritten, what it said last."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in ESCAPES.sub("", text).split("\n")]
    return CONTROLS.sub("", "\n".join(lines))


def reason(said: str) -> str:
    """The line of an output that says most about why a process ended, or the first one of where it hangs."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if lines and all(line.startswith('File "') for line in lines):
        return lines[0]
    telling = [line for line in lines if "error" in line.lower() or "cannot" in line.lower()]
    return (telling or lines or [""])[-1]


def kind_of_error(reason: str) -> str:
    """The reason without its values, such as a process id, in which the same error differs between two processes."""
    return VALUES.sub("*", reason)


def is_new(text: str, said: set[str]) -> bool:
    """Whether no error of this kind was said before; from then on it was."""
    kind = kind_of_error(text)
    first = kind not in said
    said.add(kind)
    return first


def _opened(path: Path | None) -> int:
    if path is not None:
        try:
            path.parent.mkdir(exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:  # a full disk, which the run itself announces
            pass
    file = nameless_file()
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file
