"""A program on a pseudo-terminal, and what its user sees there."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TIMEOUT = 60


class Cell(NamedTuple):
    """One character on the screen; `style` is the number between `ESC [` and `m`, empty for ordinary text."""

    character: str
    style: str = ""


BLANK = Cell(" ")


class Screen:
    """What a terminal shows after the bytes it was sent: text, line ends, and the few control codes we use."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells = [[BLANK] * width for _ in range(height)]
        self.scrolled_off: list[str] = []
        self.row = self.column = 0
        self._style = ""

    def feed(self, text: str) -> None:
        for code, argument, final, character in re.findall(r"(\x1b\[([\d;]*)([A-Za-z]))|(.)", text, re.DOTALL):
            if not code:
                self._put(character)
            elif final == "A":
                self.row = max(0, self.row - int(argument or 1))
            elif final == "K":
                self.cells[self.row][self.column :] = [BLANK] * (self.width - self.column)
            elif final == "J":
                self.cells[self.row][self.column :] = [BLANK] * (self.width - self.column)
                for row in range(self.row + 1, self.height):
                    self.cells[row] = [BLANK] * self.width
            else:
                assert final == "m", f"unknown control code {code!r}"
                self._style = "" if argument == "0" else argument

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.column = 0
            self.row += 1
        else:
            assert character.isprintable(), f"unknown control character {character!r}"
            if self.column == self.width:
                self._put("\n")
            self.cells[self.row][self.column] = Cell(character, self._style)
            self.column += 1
        if self.row == self.height:
            self.scrolled_off.append(_text(self.cells.pop(0)))
            self.cells.append([BLANK] * self.width)
            self.row -= 1

    @property
    def lines(self) -> list[str]:
        """All that was ever shown, without the blank lines."""
        return [line for line in self.scrolled_off + [_text(row) for row in self.cells] if line]


def _text(row: Sequence[Cell]) -> str:
    return "".join(cell.character for cell in row).rstrip()


def run_on_terminal(
    command: Sequence[str],
    width: int,
    height: int,
    environment: Mapping[str, str],
    *,
    folder: Path = ROOT,
    interrupt_after: float | None = None,
) -> str:
    """Run a command with a real pseudo-terminal as its standard output and return all it wrote there.

    After so many seconds it gets the signal that CTRL+C sends, if it is still at work.
    """
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        removed = ("COLUMNS", "LINES", "NO_COLOR")
        inherited = {name: value for name, value in os.environ.items() if name not in removed}
        needed = {"TERM": "xterm", "PYTHONUTF8": "1"}
        child = subprocess.Popen(command, stdout=slave, cwd=folder, env=inherited | needed | dict(environment))
    finally:
        os.close(slave)
    written = b""
    interrupt_at = None if interrupt_after is None else time.monotonic() + interrupt_after
    try:
        while part := _read(master):
            written += part
            if interrupt_at is not None and time.monotonic() >= interrupt_at:
                child.send_signal(signal.SIGINT)
                interrupt_at = None
        assert child.wait(TIMEOUT) == 0
    finally:
        child.kill()
        child.wait(TIMEOUT)
        os.close(master)
    return written.decode()


def _read(master: int) -> bytes:
    """What was written next; nothing at the end."""
    assert select.select([master], [], [], TIMEOUT)[0], "the child wrote nothing for too long"
    try:
        return os.read(master, 65536)
    except OSError:  # how Linux says that the other side was closed
        return b""
