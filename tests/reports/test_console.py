import dataclasses
import fcntl
import io
import math
import os
import re
import struct
import subprocess
import sys
import termios
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.console import LIVE_PERIOD, Console, LiveConsole, PlainConsole, make_console, size_of
from reports.run_display import ReplayFill, Status, count, decimal, duration, live_block, plain_line, scientific, score
from tests.terminal import ROOT, TIMEOUT, Screen, run_on_terminal

STATUS = Status(
    agent_steps=4_130_000,
    max_steps=10_000_000,
    frames=16_520_000,
    skipped_frames=4,
    updates=31_250,
    planned_updates=76_923,
    seconds=1531.0,
    steps_per_second=2700.0,
    episodes=1234,
    return_mean=14.5,
    return_window=100,
    return_last=18.0,
    return_max=21.0,
    policy_loss=-0.0123,
    value_loss=0.0345,
    entropy=1.2345,
    gradient_norm=0.41,
    learning_rate=4.12e-4,
    policy_lag_mean=3.2,
    replays=[ReplayFill("queue", 3, 16, 4), ReplayFill("attentive", 812, 1000, 4, needed=500)],
    is_warming_up=False,
    learner_wait_fraction=0.12,
    workers_alive=2,
    worker_count=2,
    worker_restarts=0,
    memory_mb=812.0,
    cpu_learner=98.2,
    cpu_workers=187.4,
    workers_in_games=0.61,
    gpu_utilization=None,
    starting=False,
)
STARTING = dataclasses.replace(STATUS, agent_steps=0, frames=0, workers_alive=1, starting=True)
FILLING = dataclasses.replace(
    STATUS,
    updates=0,
    return_mean=None,
    return_last=None,
    return_max=None,
    policy_loss=None,
    value_loss=None,
    entropy=None,
    gradient_norm=None,
    policy_lag_mean=None,
    replays=[ReplayFill("queue", 0, 16, 4), ReplayFill("attentive", 215, 1000, 4, needed=500)],
    is_warming_up=True,
)


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal, of a size that can change."""

    size = os.terminal_size((80, 24))

    def isatty(self) -> bool:
        return True

    def new(self) -> str:
        """What was written since the last call."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text

    def live(self) -> LiveConsole:
        return LiveConsole(self, colour=False, terminal_size=lambda: self.size)


class BrokenStream(io.StringIO):
    """A stream whose reader leaves after `writes` writes."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left, self.tried = writes, 0

    def write(self, text: str) -> int:
        self.tried += 1
        if self.tried > self.left:
            raise BrokenPipeError
        return super().write(text)


def block_text(status: Status, width: int) -> list[str]:
    lines = ["".join(span.text for span in line) for line in live_block(status, width)]
    return [line for line in lines if line]


def run_session(width: int, height: int, **environment: str) -> str:
    """What SESSION writes to a real pseudo-terminal."""
    return run_on_terminal([sys.executable, "-c", textwrap.dedent(SESSION)], width, height, environment)


SESSION = """
    import dataclasses, sys
    from reports.console import make_console
    from tests.reports.test_console import FILLING, STARTING, STATUS

    console = make_console("auto", 1.0, sys.stdout)
    console.start(["run folder", "machine"])
    for second, status in enumerate([STARTING, FILLING, STATUS] * 3):
        console.show(status, float(second))
        if second == 4:
            console.message("worker 1 was killed\\nTraceback: of two lines")
    console.close(["checkpoint saved", "go on with this"])
"""
PERMANENT_ABOVE = ["run folder", "machine", "worker 1 was killed", "Traceback: of two lines"]
PERMANENT_BELOW = ["checkpoint saved", "go on with this"]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [50, 24])
def test_real_terminal_shows_one_block_between_the_lines_that_stay(width: int, height: int) -> None:
    screen = Screen(width, height)
    screen.feed(run_session(width, height))
    assert screen.lines == [*PERMANENT_ABOVE, *block_text(STATUS, width - 1), *PERMANENT_BELOW]


def test_real_terminal_lower_than_the_block_shows_its_top() -> None:
    screen = Screen(80, 6)
    screen.feed(run_session(80, 6))
    assert screen.lines == [*PERMANENT_ABOVE, *block_text(STATUS, 79)[:4], *PERMANENT_BELOW]


def test_real_terminal_narrower_than_words_cuts_each_line() -> None:
    screen = Screen(12, 60)
    screen.feed(run_session(12, 60))
    block = [line[:11].rstrip() for line in block_text(STATUS, 11) if line[:11].strip()]
    start = screen.lines.index(block[0])
    assert screen.lines[start : start + len(block)] == block
    assert sum(line.startswith("steps") for line in screen.lines) == 1


def test_colours_are_left_out_on_request_and_cursor_codes_are_not() -> None:
    coloured = run_session(80, 24)
    plain = run_session(80, 24, NO_COLOR="1")
    assert "m" in re.findall(r"\x1b\[[\d;]*([A-Za-z])", coloured)
    assert set(re.findall(r"\x1b\[[\d;]*([A-Za-z])", plain)) == {"A", "J", "K"}
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_dumb_terminal_gets_plain_lines() -> None:
    written = run_session(80, 24, TERM="dumb")
    assert "\x1b" not in written
    assert "starting 2 workers" in written


def test_each_redraw_starts_at_the_top_of_the_block_and_ends_below_it() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    screen = Screen(*terminal.size)
    for second, status in enumerate([STARTING, FILLING, STATUS, STARTING, STATUS]):
        console.show(status, float(second))
        screen.feed(terminal.new())
        shown = block_text(status, 79)
        assert screen.lines == shown
        assert (screen.row, screen.column) == (len(shown) + 1, 0)  # one more for the blank line on top


def test_echo_of_a_key_leaves_no_trace() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    console.show(STATUS, 0.0)
    screen = Screen(*terminal.size)
    screen.feed(terminal.new() + "^C")
    console.show(STATUS, 1.0)
    screen.feed(terminal.new())
    assert screen.lines == block_text(STATUS, 79)


def test_terminal_that_became_narrower_is_redrawn_from_where_its_wrapped_block_begins() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    console.show(STATUS, 0.0)
    screen = Screen(33, 60)
    screen.feed("a line above\n" + terminal.new())  # wraps as a terminal does that was made narrower
    terminal.size = os.terminal_size((33, 60))
    console.show(STATUS, 1.0)
    screen.feed(terminal.new())
    assert screen.lines == ["a line above", *block_text(STATUS, 32)]


def test_message_before_any_status_and_after_the_end_is_only_printed() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    screen = Screen(*terminal.size)
    console.message("early")
    console.show(STATUS, 0.0)
    console.close(["end"])
    console.message("late")
    screen.feed(terminal.new())
    assert screen.lines == ["early", *block_text(STATUS, 79), "end", "late"]


def test_message_longer_than_the_terminal_is_wide_is_whole() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    screen = Screen(*terminal.size)
    console.show(STATUS, 0.0)
    console.message("x" * 200)
    console.show(STATUS, 1.0)
    screen.feed(terminal.new())
    assert screen.lines == ["x" * 80, "x" * 80, "x" * 40, *block_text(STATUS, 79)]


def test_live_draws_at_most_four_times_a_second() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    drawn = []
    for turn in range(1000):
        now = turn / 128  # steps that floats hold exactly
        due = console.due(now)
        console.show(dataclasses.replace(STATUS, episodes=turn), now)
        assert bool(terminal.new()) == due
        if due:
            drawn.append(now)
    assert drawn == [LIVE_PERIOD * number for number in range(len(drawn))]
    assert len(drawn) == 32


def test_closing_draws_the_newest_status_though_it_was_not_due() -> None:
    terminal = FakeTerminal()
    console = terminal.live()
    screen = Screen(*terminal.size)
    newest = dataclasses.replace(STATUS, episodes=9999)
    console.show(STATUS, 0.0)
    console.show(newest, 0.01)
    console.close([])
    screen.feed(terminal.new())
    assert screen.lines == block_text(newest, 79)


def test_plain_prints_one_line_a_period_and_the_newest_at_the_end() -> None:
    stream = io.StringIO()
    console = make_console("auto", 10.0, stream)
    console.start(["run folder"])
    for second in range(5):
        console.show(STARTING, float(second))
    statuses = [dataclasses.replace(STATUS, episodes=number) for number in range(25)]
    for second, status in enumerate(statuses, start=5):
        console.show(status, float(second))
    console.message("worker 1 was killed\n")
    console.close(["the end"])
    console.close([])
    expected = [plain_line(statuses[number]) for number in (0, 10, 20)]
    assert stream.getvalue().splitlines() == [
        "run folder",
        "starting 2 workers",
        *expected,
        "worker 1 was killed",
        plain_line(statuses[24]),
        "the end",
    ]


def test_plain_does_not_repeat_a_status_at_the_end() -> None:
    stream = io.StringIO()
    console = PlainConsole(stream, 10.0)
    console.show(STATUS, 0.0)
    console.close([])
    assert stream.getvalue().splitlines() == [plain_line(STATUS)]


def test_plain_line_is_pairs_of_key_and_value() -> None:
    pairs = dict(pair.split(" ", 1) for pair in re.split(r" {2,}", plain_line(STATUS)))
    assert pairs == {
        "done": "41.3%",
        "steps": "4.13M",
        "frames": "16.5M",
        "speed": "2,700/s",
        "time": "25m31s",
        "left": "36m14s",
        "games": "1,234",
        "return": "14.5",
        "best": "21.0",
        "entropy": "1.2345",
        "wait": "12%",
        "workers": "2/2",
    }
    assert "filled 43%" in plain_line(FILLING)


def test_plain_keys_stay_in_their_columns() -> None:
    small = dataclasses.replace(FILLING, agent_steps=7, frames=28, seconds=1.0, episodes=0, steps_per_second=3.0)
    large = dataclasses.replace(
        STATUS, agent_steps=99_999, frames=399_996, return_mean=-999.9, return_max=-999.9, steps_per_second=99_999.0
    )
    for key in ("steps", "frames", "speed", "time", "left", "games", "return", "best", "wait", "workers"):
        columns = {plain_line(status).index(f"  {key} ") for status in (small, STATUS, large)}
        assert len(columns) == 1, key


def test_block_says_what_there_is_to_know() -> None:
    text = "\n".join(block_text(STATUS, 80))
    facts = """41.3% | 4.13M of 10.0M | 16.5M frames | 2,700 steps/s | 10,800 frames/s | 25m31s elapsed | 36m14s left
        14.5 mean 100 | 18.0 last | 21.0 best | 1,234 games | -0.0123 policy | 0.0345 value | 1.2345 entropy
        0.4100 gradient | 31,250 of 76,923 | 3.2 lag | 4.12e-4 rate | 12% waiting | ━───── queue | 3 of 16 | 4 a batch
        ━━━━── attentive | 812 of 1,000 | 2/2 workers | 0 restarts | 812 MB"""
    missing = [fact for fact in re.split(r"\s*[|\n]\s*", facts) if fact not in text]
    assert missing == []


def test_narrow_block_leaves_no_cell_out() -> None:
    def words(width: int) -> list[str]:
        return [word for line in block_text(STATUS, width)[1:] for word in line.split()]

    assert words(39) == words(79) == words(199)
    assert max(len(line) for line in block_text(STATUS, 39)) <= 39


def test_block_keeps_its_height_and_columns_while_numbers_grow() -> None:
    early = dataclasses.replace(STATUS, agent_steps=128, frames=512, updates=0, episodes=0, seconds=0.0, memory_mb=9)
    late = dataclasses.replace(STATUS, policy_loss=-1234.5, value_loss=99999.0, episodes=99_999, worker_restarts=12)
    texts = ["\n".join(block_text(status, 79)) for status in (early, STATUS, late, FILLING)]
    assert len({text.count("\n") for text in texts}) == 1
    units = "of frames steps/s frames/s elapsed left mean last best games lag rate waiting queue workers restarts MB"
    for unit in units.split():
        assert len({len(text[: text.index(f" {unit}")].rpartition("\n")[2]) for text in texts}) == 1, unit
    for unit in ("policy", "value", "entropy", "gradient"):
        assert len({len(text[: text.index(f" {unit}")].rpartition("\n")[2]) for text in texts[:3]}) == 1, unit


def test_first_moments_have_something_to_show() -> None:
    assert block_text(STARTING, 79)[-1] == "starting workers… 1 of 2 running"
    assert any("43% filled" in line for line in block_text(FILLING, 79))
    assert any("— mean 100" in line for line in block_text(FILLING, 79))


def test_filled_is_that_of_the_replay_waited_for_longest() -> None:
    replays = [
        ReplayFill("queue", 0, 16, 2),
        ReplayFill("standard", 30, 100, 2, needed=20),
        ReplayFill("elite", 5, 100, 2, needed=20),
    ]
    assert dataclasses.replace(FILLING, replays=replays).filled == 0.25
    assert dataclasses.replace(FILLING, replays=replays[:1]).filled == 1.0


def test_extreme_numbers_are_shown_and_not_raised() -> None:
    wild = dataclasses.replace(
        STATUS,
        max_steps=0,
        agent_steps=5,
        seconds=math.inf,
        steps_per_second=5e-324,
        return_mean=math.nan,
        policy_loss=math.nan,
        value_loss=math.inf,
        learning_rate=math.nan,
        replays=[ReplayFill("queue", 9, 0, 0)],
    )
    assert "100.0%" in block_text(wild, 79)[0]
    assert "nan policy" in "\n".join(block_text(wild, 79))
    assert "return nan" in plain_line(wild)
    assert "left —" in plain_line(dataclasses.replace(STATUS, steps_per_second=5e-324))
    assert "left —" in plain_line(dataclasses.replace(STATUS, steps_per_second=0.0))
    assert "left 0m00s" in plain_line(dataclasses.replace(STATUS, agent_steps=10_000_100))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (99_999.6, "100,000"),
        (100_000, "100k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (4_130_000, "4.13M"),
        (16_520_000, "16.5M"),
        (200_000_000, "200M"),
        (1.5e9, "1.50B"),
    ],
)
def test_count(value: float, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (math.nan, "—"),
        (math.inf, "—"),
        (0.9, "0m00s"),
        (65, "1m05s"),
        (3599.9, "59m59s"),
        (7380, "2h03m"),
        (363_600, "4d05h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "—"), (-20.25, "-20.2"), (999.94, "999.9"), (999.96, "1,000"), (864_000, "864k")]
)
def test_score(value: float | None, text: str) -> None:
    assert score(value) == text


@given(st.floats(-1e12, 1e12))
def test_every_number_fits_its_column(value: float) -> None:
    assert len(count(value)) <= 7
    assert len(score(value)) <= 7
    assert len(decimal(value)) <= 7


@given(st.floats(1e-9, 1.0))
def test_learning_rates_fit_and_keep_three_figures(value: float) -> None:
    text = scientific(value)
    assert len(text) <= 7
    assert float(text) == float(f"{value:.3g}")


@pytest.mark.parametrize("mode", ["live", "plain"])
@pytest.mark.parametrize("writes", [0, 2])
def test_console_falls_silent_when_its_reader_leaves(mode: str, writes: int) -> None:
    stream = BrokenStream(writes)
    console = make_console(mode, 0.0, stream)
    console.start(["run folder"])
    for second in range(5):
        console.show(STATUS, float(second))
    console.message("a message")
    console.close(["the end"])
    assert stream.tried == writes + 1
    assert "the end" not in stream.getvalue()


def test_training_outlives_the_reader_of_its_pipe_and_exits_cleanly() -> None:
    script = """
        import sys
        from reports.console import make_console
        from tests.reports.test_console import STATUS

        console = make_console("auto", 0.0, sys.stdout)
        for second in range(3):
            console.show(STATUS, float(second))
        console.close(["the end"])
        print("printed by others to the same stream")
        print("trained to the end", file=sys.stderr)
    """
    reader, writer = os.pipe()
    os.close(reader)
    try:
        child = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=TIMEOUT,
            check=False,
        )
    finally:
        os.close(writer)
    assert child.stderr == b"trained to the end\n"
    assert child.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_stream_without_our_glyphs_gets_others_of_the_same_width(encoding: str) -> None:
    raw = io.BytesIO()
    console = make_console("live", 1.0, io.TextIOWrapper(raw, encoding=encoding))
    console.show(FILLING, 0.0)
    console.message("game \udcff ended")
    text = re.sub(r"\x1b\[[\d;]*m", "", raw.getvalue().decode(encoding))
    assert "###" in text
    assert "- mean 100" in text
    assert "game ? ended" in text


def test_off_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console("off", 1.0, sys.stdout)
    assert type(console) is Console
    console.start(["run folder"])
    assert not console.due(0.0)
    console.show(STATUS, 0.0)
    console.message("a message")
    console.close(["the end"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("mode", "terminal", "kind"),
    [
        ("auto", True, LiveConsole),
        ("auto", False, PlainConsole),
        ("live", False, LiveConsole),
        ("plain", True, PlainConsole),
    ],
)
def test_mode_decides_which_console(
    mode: str, terminal: bool, kind: type[Console], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert type(make_console(mode, 1.0, FakeTerminal() if terminal else io.StringIO())) is kind


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="auto, live, plain or off"):
        make_console("loud", 1.0, io.StringIO())


def test_the_size_is_the_terminal_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS and LINES say what it was when somebody wrote them down."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "50")
    assert size_of(io.StringIO()) == (200, 50), "no terminal"
    master, slave = os.openpty()
    with open(master, "rb"), open(slave, "w") as terminal:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 81, 0, 0))
        assert size_of(terminal) == (81, 24)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert size_of(terminal) == (200, 50), "a terminal that does not know"
