"""The display of a training, rendered to text at several widths."""

import math
import re

import pytest

from reports.terminal.run_display import ReplayFill, Status, plain_line
from tests.reports.terminal.rendering import as_lines
from tests.reports.terminal.statuses import STARTING, STATUS, WARMING_UP, changed

TREND = [-20.0, -20.0, -10.0, 14.5]
VALUES = """41.3% 4.13M 16.5M 31,250 1,234 2,700 10,800 25m31s 36m14s 14.5 18.0 21.0 -0.0123 0.0345 1.2345 0.4100 3.2
    4.12e-4 12% 98% 2/2 61% 187% 816 queue attentive 812"""


def lines_of(status: Status, width: int = 79, height: int = 23) -> list[str]:
    return [line for line in as_lines(status.view(width, height, TREND), width) if line]


@pytest.mark.parametrize("width", [39, 60, 79, 100, 160])
def test_every_figure_is_shown_whole_at_every_width(width: int) -> None:
    lines = lines_of(STATUS, width)
    words = set(" ".join(lines).split())
    assert set(VALUES.split()) <= words
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)


def test_figures_are_in_groups_with_their_units() -> None:
    text = "\n".join(lines_of(STATUS, 100))
    for title in ("progress", "speed and time", "returns", "losses", "learner", "workers", "replays"):
        assert f"{title} ──" in text
    facts = """steps 4.13M of 10.0M | updates 31,250 of 76.9k | frames/s 10,800 | left 36m14s | mean 14.5 last 100 |
        lag 3.2 updates | lr 4.12e-4 | waiting 12% of time | in games 61% of time | memory 816 MB |
        gradient 0.4100 norm"""
    shown = re.sub(r" +", " ", text)
    assert [fact for fact in re.split(r"\s*\|\s*", facts) if fact not in shown] == []
    assert re.search(r"attentive +[━╸╺]+ +812 +of 1,000 +4 in each batch", text)
    assert "GPU" not in text
    assert re.search(r"GPU +45%", "\n".join(lines_of(changed(STATUS, gpu_utilization=45.0))))


def test_the_mean_return_is_a_sparkline_or_a_curve_where_there_is_room() -> None:
    assert re.search(r"trend +▁▁▃█$", "\n".join(lines_of(STATUS, 79)), re.MULTILINE)
    wide = lines_of(STATUS, 160)
    first = next(place for place, line in enumerate(wide) if "mean return since the start" in line)
    assert wide[first + 1].endswith(" 14.5    █")
    assert wide[first + 5].endswith(" -20.0 ▁▁██")


def test_the_display_fits_a_usual_terminal_and_is_spaced_where_there_is_room() -> None:
    for width, height in ((79, 23), (59, 23), (100, 40)):
        lines = as_lines(STATUS.view(width, height, TREND), width)
        assert len(lines) <= height
    assert as_lines(STATUS.view(100, 40, TREND), 100).count("") > as_lines(STATUS.view(100, 16, TREND), 100).count("")


def test_the_display_keeps_its_height_and_columns_while_numbers_change() -> None:
    early = changed(STATUS, agent_steps=128, frames=512, updates=0, episodes=0, seconds=0.0, memory_learner_mb=9)
    late = changed(STATUS, policy_loss=-1234.5, value_loss=99999.0, episodes=99_999, worker_restarts=12)
    texts = [lines_of(status) for status in (early, STATUS, late)]
    assert len({len(text) for text in [*texts, lines_of(WARMING_UP)]}) == 1
    for line in zip(*texts, strict=True):
        # Words in lower case are labels and units; numbers, and the counts in notes, may differ.
        starts = [{match.start() for match in re.finditer(r"(?<![\w,.])[a-z/]{3,}", text)} for text in line]
        assert starts[0] == starts[1] == starts[2], line


def test_a_run_that_starts_or_warms_up_has_a_display() -> None:
    assert lines_of(STARTING)[-1] == "starting workers… 1 of 2 running"
    text = "\n".join(lines_of(WARMING_UP))
    assert re.search(r"filled +43%", text) and "learning starts at" in text
    assert re.search(r"mean +— last 100", text)
    assert len(lines_of(WARMING_UP, 160)) == len(lines_of(STATUS, 160))


def test_filled_is_that_of_the_least_filled_replay() -> None:
    replays = [
        ReplayFill("queue", 0, 16, 2),
        ReplayFill("standard", 30, 100, 2, needed=20),
        ReplayFill("elite", 5, 100, 2, needed=20),
    ]
    assert changed(WARMING_UP, replays=replays).filled == 0.25
    assert changed(WARMING_UP, replays=replays[:1]).filled == 1.0


def test_extreme_numbers_are_shown_and_raise_no_error() -> None:
    wild = changed(
        STATUS,
        max_steps=0,
        agent_steps=5,
        seconds=math.inf,
        speed=5e-324,
        return_mean=math.nan,
        policy_loss=math.nan,
        value_loss=math.inf,
        learning_rate=math.nan,
        replays=[ReplayFill("queue", 9, 0, 0)],
    )
    text = "\n".join(lines_of(wild))
    assert "100.0%" in text and re.search(r"policy +nan", text)
    assert "return nan" in plain_line(wild)
    assert "left —" in plain_line(changed(STATUS, speed=5e-324))
    assert "left —" in plain_line(changed(STATUS, speed=0.0))
    assert "left 0m00s" in plain_line(changed(STATUS, agent_steps=10_000_100))


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
    assert "filled 43%" in plain_line(WARMING_UP)


def test_plain_keys_stay_in_their_columns() -> None:
    small = changed(WARMING_UP, agent_steps=7, frames=28, seconds=1.0, episodes=0, speed=3.0)
    large = changed(STATUS, agent_steps=99_999, frames=399_996, return_mean=-999.9, return_max=-999.9, speed=99_999.0)
    for key in ("steps", "frames", "speed", "time", "left", "games", "return", "best", "wait", "workers"):
        columns = {plain_line(status).index(f"  {key} ") for status in (small, STATUS, large)}
        assert len(columns) == 1, key
