"""Shows a training or a test on the terminal: a live display, one plain line per period, or nothing."""

import contextlib
import io
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TextIO, cast

import rich.console
from rich.console import Group
from rich.constrain import Constrain
from rich.live import Live
from rich.text import Text

from reports.run_display import Status

LIVE_PERIOD = 0.5  # seconds; a drawing takes some milliseconds of the learner's time
WIDEST_DISPLAY = 120  # columns
TERMS_WITHOUT_CURSOR = ("dumb", "unknown")  # values of TERM for which rich draws nothing


class Console:
    """Shows nothing on the terminal: the console for `off`, and the base of the others.

    All lines that stay are also appended to the file `messages`, if there is one, each with its time. A file that
    cannot be written does not end the run.
    """

    def __init__(self, messages: Path | None = None, period: float = math.inf) -> None:
        self._messages = messages
        self._period = period  # seconds between two statuses; infinite: none is shown
        self._next = -math.inf

    def start(self, header: Sequence[str]) -> None:
        """Print the lines that describe the run."""
        self._keep(header)

    def due(self, now: float) -> bool:
        """Whether it is time to show a status again."""
        return self._period < math.inf and now >= self._next

    def show(self, status: Status, now: float) -> None:
        """Show a status; `now` is in seconds of a monotonic clock."""
        self._next = now + self._period
        self._show(status)

    def message(self, text: str) -> None:
        """Print a message, which stays on the screen."""
        self._keep([text])

    def close(self, final_lines: Sequence[str]) -> None:
        """Print the last lines of the run."""
        self._keep(final_lines)

    def _keep(self, texts: Sequence[str]) -> None:
        self._print([text.rstrip("\n") for text in texts])
        if self._messages is None:
            return
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        lines = "".join(f"{stamp}  {line}\n" for text in texts for line in text.splitlines())
        # Names of files may contain bytes that are not UTF-8.
        with contextlib.suppress(OSError), self._messages.open("ab") as file:
            file.write(lines.encode(errors="backslashreplace"))

    def _print(self, texts: Sequence[str]) -> None:
        """Print texts on lines of their own."""

    def _show(self, status: Status) -> None:
        """Print or draw a status."""


def make_console(mode: str, period: float, stream: TextIO, messages: Path | None = None) -> Console:
    """The console for `mode`: live, plain, off, or auto, which is live on a terminal and plain elsewhere."""
    if mode == "auto":
        on_terminal = stream.isatty() and os.environ.get("TERM", "").lower() not in TERMS_WITHOUT_CURSOR
        mode = "live" if on_terminal else "plain"
    if mode == "live":
        return LiveConsole(stream, messages)
    return PlainConsole(stream, period, messages) if mode == "plain" else Console(messages)


class PlainConsole(Console):
    """One line per period: for files, pipes and terminals that cannot move their cursor."""

    def __init__(self, stream: TextIO, period: float, messages: Path | None = None) -> None:
        super().__init__(messages, period)
        self._output = _QuietStream(stream)

    def _print(self, texts: Sequence[str]) -> None:
        self._output.write("".join(f"{text}\n" for text in texts))

    def _show(self, status: Status) -> None:
        self._print([status.line()])


class LiveConsole(Console):
    """A display at the bottom of a terminal, redrawn in place; messages are printed above it."""

    def __init__(self, stream: TextIO, messages: Path | None = None) -> None:
        super().__init__(messages, LIVE_PERIOD)
        self._terminal = rich.console.Console(
            file=cast(IO[str], _QuietStream(stream)),
            force_terminal=True,
            force_interactive=True,
            force_jupyter=False,
            markup=False,
            emoji=False,
            highlight=False,
        )
        # Drawn by the caller's thread, at the times that the caller chooses.
        self._live = Live(console=self._terminal, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
                          vertical_overflow="crop")  # fmt: skip
        self._trend = Trend()

    def _print(self, texts: Sequence[str]) -> None:
        if texts:
            self._terminal.print(Text("\n".join(texts)), soft_wrap=True)  # long lines stay whole, for copying

    def _show(self, status: Status) -> None:
        self._trend.add(status["return_mean"])
        # The last column stays free: terminals differ in where the cursor goes from there.
        width = max(1, min(self._terminal.width - 1, WIDEST_DISPLAY))
        view = Constrain(status.view(width, self._trend.samples), width)
        if not self._live.is_started:
            self._live.start()
            self._terminal.show_cursor()  # Live hides it, and it would stay hidden after a run that is killed
        self._live.update(Group(view, " "), refresh=True)  # the cursor waits in an empty last line

    def close(self, final_lines: Sequence[str]) -> None:
        self._live.stop()
        super().close(final_lines)


class Trend:
    """The history of a number since the start, in fewer than `most` samples at equal intervals."""

    def __init__(self, most: int = 256) -> None:
        self.samples: list[float] = []
        self._most, self._added, self._interval = most, 0, 1

    def add(self, value: float | None) -> None:
        """Add the present value; None and NaN are left out."""
        if value is None or not math.isfinite(value):
            return
        if self._added % self._interval == 0:
            self.samples.append(value)
        self._added += 1
        if len(self.samples) == self._most:
            self.samples = self.samples[::2]
            self._interval *= 2


class _QuietStream(io.TextIOBase):
    """Writes to a stream until the first write fails, then discards everything.

    So a closed pipe (`| head`) or a closed terminal does not end a training. The run's files have all figures.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._failed = False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        if self._failed or not text:
            return len(text)
        try:
            self._stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
            self._stream.flush()
        except BlockingIOError:
            pass  # a full pipe that is set not to block: only what it has no room for is lost
        except OSError:
            self._failed = True
            # Python flushes the stream when it exits; if that failed again, the exit code would be 120.
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
        return len(text)
