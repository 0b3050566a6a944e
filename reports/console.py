"""What a user sees while training or a test runs: a block of lines redrawn in place, or one plain line each period."""

import contextlib
import math
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TextIO

from reports.run_display import Span

LIVE_PERIOD = 0.25

ASCII_GLYPHS = str.maketrans({"━": "#", "─": ".", "—": "-", "…": "."})


class Display(Protocol):
    """What a console can show."""

    @property
    def starting(self) -> bool:
        """Whether nothing has come from the workers yet."""

    @property
    def worker_count(self) -> int: ...

    def block(self, width: int) -> list[list[Span]]:
        """The lines of the live display."""

    def line(self) -> str:
        """The same in one line."""


class Console:
    """Shows a run to its user. This one, for `off`, shows nothing, messages included; the others build on it."""

    def start(self, header: Sequence[str]) -> None:
        """Prints the lines that say what this run is."""

    def due(self, now: float) -> bool:
        """Whether `show` would draw now; a caller can ask before it gathers a status."""
        return False

    def show(self, status: Display, now: float) -> None:
        """Takes the newest status and draws it if it is time to; `now` is any clock of seconds that only rises."""

    def message(self, text: str) -> None:
        """Prints lines that stay."""

    def close(self, final_lines: Sequence[str]) -> None:
        """Draws the newest status a last time and prints the lines that end the run."""


def make_console(mode: str, period: float, stream: TextIO) -> Console:
    """The console for `mode`: live, plain, off, or auto, which is live on a terminal and plain elsewhere."""
    match mode:
        case "auto":
            on_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
            return make_console("live" if on_terminal else "plain", period, stream)
        case "live":
            return LiveConsole(stream, colour=not os.environ.get("NO_COLOR"))
        case "plain":
            return PlainConsole(stream, period)
        case "off":
            return Console()
        case _:
            raise ValueError(f"the console is auto, live, plain or off, not {mode!r}")


class PlainConsole(Console):
    """One line each period, for files, pipes and terminals that cannot move their cursor."""

    def __init__(self, stream: TextIO, period: float) -> None:
        self._output = _Output(stream)
        self._timer = _Timer(period)
        self._unshown: Display | None = None
        self._start_announced = False

    def start(self, header: Sequence[str]) -> None:
        self._output.write(_lines(header))

    def due(self, now: float) -> bool:
        return self._timer.due(now)

    def show(self, status: Display, now: float) -> None:
        if status.starting:
            if not self._start_announced:
                self._start_announced = True
                self._output.write(f"starting {status.worker_count} workers\n")
        elif self._timer.due(now):
            self._timer.restart(now)
            self._unshown = None
            self._output.write(status.line() + "\n")
        else:
            self._unshown = status

    def message(self, text: str) -> None:
        self._output.write(_lines([text]))

    def close(self, final_lines: Sequence[str]) -> None:
        last = [self._unshown.line()] if self._unshown else []
        self._unshown = None
        self._output.write(_lines([*last, *final_lines]))


class LiveConsole(Console):
    """A block of lines at the bottom of a terminal, redrawn in place four times a second."""

    def __init__(
        self,
        stream: TextIO,
        *,
        colour: bool,
        terminal_size: Callable[[], os.terminal_size] | None = None,
    ) -> None:
        self._output = _Output(stream)
        self._colour = colour
        self._terminal_size = terminal_size or partial(size_of, stream)
        self._timer = _Timer(LIVE_PERIOD)
        self._status: Display | None = None
        self._drawn_widths: list[int] = []  # of the lines of the block now on the screen

    def start(self, header: Sequence[str]) -> None:
        self.message("\n".join(header))

    def due(self, now: float) -> bool:
        return self._timer.due(now)

    def show(self, status: Display, now: float) -> None:
        self._status = status
        if self._timer.due(now):
            self._timer.restart(now)
            self._redraw()

    def message(self, text: str) -> None:
        self._redraw(above=_lines([text]))

    def close(self, final_lines: Sequence[str]) -> None:
        self._redraw()
        self._drawn_widths.clear()
        self._status = None
        self._output.write(_lines(final_lines))

    def _redraw(self, above: str = "") -> None:
        """Puts the cursor where the block began and writes `above`, then the block, over what is there.

        All in one write, and each line replaced rather than first cleared: so the block never flickers.
        """
        width, height = self._terminal_size()
        # A terminal that became narrower has wrapped the lines on it, and the block has grown by as many rows.
        rows = sum(max(1, math.ceil(drawn / max(1, width))) for drawn in self._drawn_widths)
        text = "\r" + (f"\x1b[{rows}A" if rows else "")
        if above:
            text += "\x1b[J" + above
        # The last column stays free, since terminals differ in where the cursor goes from there, and so does
        # the last row, where the cursor rests: a block that scrolled could not be reached again.
        room = max(1, width - 1)
        lines = self._status.block(room)[: max(1, height - 1)] if self._status else []
        text += "".join(_paint(line, room, self._colour) + "\x1b[K\n" for line in lines) + "\x1b[J"
        self._drawn_widths = [min(room, sum(len(span.text) for span in line)) for line in lines]
        self._output.write(text)


def size_of(stream: TextIO) -> os.terminal_size:
    """The terminal's own word counts: COLUMNS and LINES of the environment do not follow when it is resized."""
    with contextlib.suppress(OSError, ValueError):  # no terminal
        size = os.get_terminal_size(stream.fileno())
        if size.columns and size.lines:
            return size
    return shutil.get_terminal_size()


def _paint(line: Sequence[Span], room: int, colour: bool) -> str:
    """The line as written to the terminal, cut to `room` columns."""
    painted = ""
    for text, style in line:
        shown = text[:room]
        room -= len(shown)
        painted += f"\x1b[{style}m{shown}\x1b[0m" if colour and style and shown else shown
    return painted


def _lines(texts: Sequence[str]) -> str:
    return "".join(text.rstrip("\n") + "\n" for text in texts)


class _Timer:
    """Says when a period is over. The first is over at once."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._next = -math.inf

    def due(self, now: float) -> bool:
        return now >= self._next

    def restart(self, now: float) -> None:
        self._next = now + self._period


class _Output:
    """A stream that falls silent for good at its first failed write.

    A reader that left (`| head`) or a terminal that was closed is no reason to lose hours of training, and the run's
    files keep all that would have been shown.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._silent = False

    def write(self, text: str) -> None:
        if self._silent or not text:
            return
        encoding = self._stream.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.translate(ASCII_GLYPHS).encode(encoding, "replace").decode(encoding)
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._silent = True
            self._discard_the_rest()

    def _discard_the_rest(self) -> None:
        """Lets the stream lead nowhere: flushing it when Python ends would fail again and turn the exit code to 120."""
        with contextlib.suppress(OSError):  # a stream without a file behind it has nothing to flush to
            descriptor = self._stream.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
