"""The display of a running test, and its results."""

import re
from typing import Any

import pytest

from reports.terminal.scoreboard import TestStatus, result_lines
from tests.reports.terminal.rendering import as_lines

STATUS = TestStatus(games=1000, seconds=60.0, worker_count=2, returns=[1.0, 2.0, 6.0, 3.0] * 50, agent_steps=120_000)
RESULT: dict[str, Any] = {
    "games": 1000,
    "games_wanted": 1000,
    "seconds": 125.2,
    "agent_steps_per_second": 2345.6,
    "return_mean": 14.5,
    "return_mean_95": (13.9, 15.1),
    "return_median": 15.0,
    "return_std": 3.2,
    "return_min": -21.0,
    "return_max": 21.0,
    "human_normalised": 0.97,
    "length_mean": 1234.5,
    "cut_off": 3,
}


@pytest.mark.parametrize("width", [39, 60, 100, 160])
def test_the_display_has_every_figure_at_every_width(width: int) -> None:
    lines = as_lines(STATUS.view(width, 23, []), width)
    shown = re.sub(r" +", " ", " ".join(lines))
    facts = ("20.0%", "ended 200", "processes 2", "steps/s 2,000", "elapsed 1m00s", "left 4m00s")
    for fact in (*facts, "mean 3.00", "lowest 1.00", "highest 6.00"):
        assert fact in shown, fact
    assert max(map(len, lines)) <= width


def test_a_test_that_has_just_begun_has_a_line_and_a_display() -> None:
    empty = TestStatus(games=10, seconds=0.0, worker_count=2, returns=[], agent_steps=0)
    assert empty.starting and "left —" in empty.line()
    assert as_lines(empty.view(60, 20, []), 60)


def test_the_line_is_pairs_of_key_and_value() -> None:
    assert re.split(r" {2,}", STATUS.line()) == [
        *("done 20%", "games 200 of 1,000", "speed 2,000/s", "time 1m00s", "left 4m00s", "return 3.00"),
    ]


def test_the_results_are_an_aligned_table() -> None:
    assert result_lines(RESULT) == [
        "1,000 games in 125 s, 2,346 agent steps/s",
        "return  mean                 14.50  13.90 to 15.10 with 95% confidence",
        "        median               15.00",
        "        standard deviation    3.20",
        "        lowest              -21.00",
        "        highest              21.00",
        "        human-normalised       97%  0% is random play, 100% a human tester",
        "length  mean                 1,234  agent steps",
        "        cut off                  3  games",
    ]


def test_the_results_of_one_game_of_many_have_no_interval() -> None:
    lines = result_lines({**RESULT, "games": 1, "return_mean_95": None, "return_std": None, "human_normalised": None})
    assert lines[0] == "stopped after 1 of 1,000 games, 125 s"
    assert "short games end first" in lines[1]
    assert not re.search("confidence|deviation|human", "\n".join(lines))
