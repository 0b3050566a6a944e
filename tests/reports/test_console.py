"""The consoles: what they write to a terminal, a file, a pipe, and a stream that fails."""

import io
import os
import re
import sys
from pathlib import Path

import pytest

from reports.console import Console, LiveConsole, PlainConsole, make_console
from reports.run_display import Status
from tests.reports.rendering import as_lines, drawings
from tests.reports.statuses import STARTING, STATUS, WARMING_UP, changed


class FakeTerminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class BrokenStream(io.StringIO):
    """A stream that fails after `writes` writes, like a pipe whose reader has exited."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.allowed, self.tried = writes, 0

    def write(self, text: str) -> int:
        self.tried += 1
        if self.tried > self.allowed:
            raise BrokenPipeError
        return super().write(text)


class FullStream(io.StringIO):
    """A pipe that does not block; it may be full."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise BlockingIOError
        return super().write(text)


@pytest.fixture(autouse=True)
def _terminal_of_80_by_24(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    resize(monkeypatch, 80, 24)


def resize(monkeypatch: pytest.MonkeyPatch, width: int, height: int) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((width, height)))


def display(status: Status, width: int = 79) -> list[str]:
    """The lines of a display, and the empty line with the cursor."""
    mean = status["return_mean"]
    trend = [] if mean is None else [mean]
    return [*as_lines(status.view(width, trend), width), ""]


# --- Live -------------------------------------------------------------------------------------------------------------


def test_the_display_is_below_messages_and_above_the_last_lines() -> None:
    terminal = FakeTerminal()
    console = LiveConsole(terminal)
    console.start(["run folder", "machine"])
    console.show(STATUS, 0.0)
    console.message("worker 1 was killed\nTraceback: of two [lines]\n")
    console.close(["checkpoint saved", "go on with this"])
    first, message, *_, last = drawings(terminal.getvalue())
    assert first == ["run folder", "machine", *display(STATUS)]
    assert message == ["worker 1 was killed", "Traceback: of two [lines]", *display(STATUS)]
    assert last == [*display(STATUS), "checkpoint saved", "go on with this", ""]


@pytest.mark.parametrize(("width", "height"), [(40, 50), (12, 60), (80, 6), (200, 50)])
def test_the_display_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int, height: int) -> None:
    resize(monkeypatch, width, height)
    terminal = FakeTerminal()
    LiveConsole(terminal).show(STATUS, 0.0)
    (shown,) = drawings(terminal.getvalue())
    assert len(shown) <= height
    assert max(map(len, shown)) < width


def test_colours_are_left_out_on_request_and_control_codes_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> str:
        terminal = FakeTerminal()
        console = make_console("auto", 1.0, terminal)
        for second in range(3):
            console.show(STATUS, float(second))
        return terminal.getvalue()

    coloured = written()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = written()
    assert re.search(r"\x1b\[[\d;]*3\dm", coloured)
    assert not re.search(r"\x1b\[[\d;]*3\dm", plain)
    assert "\x1b[1A" in plain


def test_the_cursor_stays_visible() -> None:
    """A run that is killed could not show it again."""
    terminal = FakeTerminal()
    LiveConsole(terminal).show(STATUS, 0.0)
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")


def test_messages_before_the_first_status_and_after_the_end_are_only_printed() -> None:
    terminal = FakeTerminal()
    console = LiveConsole(terminal)
    console.message("early")
    console.close([])
    console.message("late")
    assert drawings(terminal.getvalue()) == [["early", "late", ""]]


def test_a_message_longer_than_the_terminal_is_wide_stays_one_line() -> None:
    terminal = FakeTerminal()
    console = LiveConsole(terminal)
    console.show(STATUS, 0.0)
    console.message("x" * 200)
    assert drawings(terminal.getvalue())[-1][0] == "x" * 200


def test_a_status_is_drawn_even_if_it_is_not_due() -> None:
    terminal = FakeTerminal()
    console = LiveConsole(terminal)
    console.show(changed(STATUS, return_mean=None), 0.0)
    newest = changed(STATUS, episodes=9999, return_mean=None)
    assert not console.due(0.01)
    console.show(newest, 0.01)
    console.close([])
    assert drawings(terminal.getvalue())[-1] == [*display(newest), ""]


# --- Plain ------------------------------------------------------------------------------------------------------------


def test_plain_prints_one_line_a_period() -> None:
    stream = io.StringIO()
    console = make_console("auto", 10.0, stream)
    console.start(["run folder"])
    console.show(STARTING, 0.0)
    statuses = [changed(STATUS, episodes=number) for number in range(35)]
    for second, status in enumerate(statuses, start=1):
        if console.due(second):
            console.show(status, float(second))
    console.message("worker 1 was killed\n")
    console.close(["the end"])
    console.close([])
    assert stream.getvalue().splitlines() == [
        "run folder",
        "starting workers, 1 of 2 running",
        *[statuses[number].line() for number in (9, 19, 29)],
        "worker 1 was killed",
        "the end",
    ]


# --- Both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["live", "plain"])
@pytest.mark.parametrize("writes", [0, 2])
def test_a_console_writes_nothing_more_after_its_reader_has_exited(mode: str, writes: int) -> None:
    stream = BrokenStream(writes)
    console = make_console(mode, 0.0, stream)
    console.start(["run folder"])
    for second in range(5):
        console.show(STATUS, float(second))
    console.message("a message")
    console.close(["the end"])
    assert stream.tried == writes + 1
    assert "the end" not in stream.getvalue()


@pytest.mark.parametrize("mode", ["live", "plain"])
def test_a_full_pipe_that_does_not_block_is_written_again_later(mode: str) -> None:
    stream = FullStream()
    console = make_console(mode, 0.0, stream)
    console.message("lost")
    stream.full = False
    console.message("shown")
    assert stream.getvalue() == "shown\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_that_cannot_encode_a_text_gets_question_marks(encoding: str) -> None:
    raw = io.BytesIO()
    console = make_console("live", 1.0, io.TextIOWrapper(raw, encoding=encoding))
    console.show(WARMING_UP, 0.0)
    console.message("game \udcff ended")
    shown = drawings(raw.getvalue().decode(encoding))
    assert [len(line) for line in shown[0]] == [len(line) for line in display(WARMING_UP)]
    assert shown[-1][0] == "game ? ended"


def test_off_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console("off", 1.0, sys.stdout)
    console.start(["run folder"])
    assert not console.due(0.0)
    console.show(STATUS, 0.0)
    console.message("a message")
    console.close(["the end"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("mode", "terminal", "term", "kind"),
    [
        ("auto", True, "xterm", LiveConsole),
        ("auto", True, "dumb", PlainConsole),
        ("auto", True, "unknown", PlainConsole),
        ("auto", False, "xterm", PlainConsole),
        ("live", False, "xterm", LiveConsole),
        ("plain", True, "xterm", PlainConsole),
    ],
)
def test_the_mode_and_the_stream_decide_which_console(
    mode: str, terminal: bool, term: str, kind: type[Console], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    assert type(make_console(mode, 1.0, FakeTerminal() if terminal else io.StringIO())) is kind


def test_messages_are_in_a_file_too_with_their_times(tmp_path: Path) -> None:
    stream, path = io.StringIO(), tmp_path / "messages.txt"
    console = PlainConsole(stream, 10.0, path)
    console.start(["Pong", "2 workers"])
    assert console.due(0.0)
    console.show(STATUS, 0.0)
    console.message("worker 1 died\nand was replaced")
    console.close(["finished"])
    lines = path.read_text().splitlines()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  .+", line) for line in lines)
    assert [line[21:] for line in lines] == ["Pong", "2 workers", "worker 1 died", "and was replaced", "finished"]
    shown = stream.getvalue().splitlines()
    assert [shown[0], shown[1], *shown[3:]] == [line[21:] for line in lines] and shown[2] == STATUS.line()


def test_a_file_of_messages_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = PlainConsole(stream, 10.0, tmp_path / "missing" / "messages.txt")
    console.message("still shown")
    assert stream.getvalue() == "still shown\n"


def test_a_message_may_name_a_folder_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "messages.txt"
    PlainConsole(io.StringIO(), 10.0, path).message("in results/\udcff")
    assert path.read_text().endswith("  in results/\\udcff\n")
