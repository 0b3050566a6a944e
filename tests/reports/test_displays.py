"""The displays of a training and of a test, rendered to text at several widths."""

import math
import re
from typing import Any

import pytest

from evaluation.score_statistics import result_lines, status_of_test
from reports.console import Trend
from reports.run_display import ReplayFill, Status, sparkline
from tests.reports.rendering import as_lines
from tests.reports.statuses import STARTING, STATUS, WARMING_UP, changed

TREND = [-20.0, -20.0, -10.0, 14.5]
VALUES = """41.3% 4.13M 16.5M 31,250 1,234 2,700 10,800 25m31s 36m14s 14.5 18.0 21.0 -0.0123 0.0345 1.23 0.410 3.20
    4.12e-4 12% 98% 2/2 61% 187% 816 queue attentive 812"""
TIMING = {
    **{"idle_share": 0.0049, "action_age_mean": 4.02, "action_age_95": 5.0, "action_age_max": 12.0},
    "action_interval_mean": 4.0,
}
CLOCK = {
    **{"missed_share": 0.12, "inference_ms_mean": 20.04, "inference_ms_max": 81.26},
    **{"needed_processes_mean": 1, "dropped_unrolls": 0},
}
NODE = {
    **{"node": "near", "alive": True, "workers": 2, "steps_per_second": 900.0, "policy_lag": 4.5},
    **{"received_bytes_per_second": 3e5, "sent_bytes_per_second": 2e6},
}
TEST = status_of_test(1000, 2, 60.0, [1.0, 2.0, 6.0, 3.0] * 50, 120_000)
RESULT: dict[str, Any] = {
    **{"games": 1000, "games_wanted": 1000, "seconds": 125.2, "agent_steps_per_second": 2345.6, "return_mean": 14.5},
    **{"return_mean_95": (13.9, 15.1), "return_median": 15.0, "return_std": 3.2, "return_min": -21.0},
    **{"return_max": 21.0, "human_normalised": 0.97, "length_mean": 1234.5, "cut_off": 3},
}


def lines_of(status: Status, width: int = 79) -> list[str]:
    return [line for line in as_lines(status.view(width, TREND), width) if line]


def text_of(status: Status, width: int = 79) -> str:
    """With one space between words."""
    return re.sub(r" +", " ", "\n".join(lines_of(status, width)))


# --- A training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 79, 119])
def test_every_figure_is_shown_whole_at_every_width(width: int) -> None:
    lines = lines_of(STATUS, width)
    assert set(VALUES.split()) <= set(" ".join(lines).split())
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)


def test_figures_are_in_groups_with_their_units() -> None:
    text = text_of(STATUS)
    for title in ("progress", "speed and time", "returns", "losses", "learner", "workers", "replays"):
        assert f"{title} ──" in text
    facts = """steps 4.13M of 10.0M | updates 31,250 of 76.9k | frames/s 10,800 | left 36m14s | mean 14.5 last 100 |
        lag 3.20 updates | lr 4.12e-4 | waiting 12% of time | in games 61% of time | memory 816 MB |
        gradient 0.410 norm"""
    assert [fact for fact in re.split(r"\s*\|\s*", facts) if fact not in text] == []
    assert re.search(r"attentive [━╸╺]+ 812 of 1,000 4 in each batch", text)
    assert "GPU" not in text and "GPU 45%" in text_of(changed(STATUS, gpu_utilization=45.0))


def test_the_mean_return_is_a_curve_since_the_start() -> None:
    lines = lines_of(STATUS)
    first = next(place for place, line in enumerate(lines) if line.startswith("mean return since the start ──"))
    assert lines[first + 1] == "   14.5    █"
    assert lines[first + 3] == "  -20.0 ▁▁██"


def test_the_display_fits_a_usual_terminal_and_keeps_its_columns_while_numbers_change() -> None:
    early = changed(STATUS, agent_steps=128, frames=512, updates=0, episodes=0, seconds=0.0, memory_learner_mb=9)
    late = changed(STATUS, policy_loss=-1234.5, value_loss=99999.0, episodes=99_999, worker_restarts=12)
    texts = [lines_of(status) for status in (early, STATUS, late)]
    assert {len(text) for text in [*texts, lines_of(WARMING_UP)]} == {len(texts[0])} and len(texts[0]) < 23
    for line in zip(*texts, strict=True):
        # Words in lower case are labels and units; numbers, and the counts in notes, may differ.
        starts = [{match.start() for match in re.finditer(r"(?<![\w,.])[a-z/]{3,}", text)} for text in line]
        assert starts[0] == starts[1] == starts[2], line


def test_a_run_that_starts_or_warms_up_has_a_display() -> None:
    assert lines_of(STARTING)[-1] == "starting workers, 1 of 2 running"
    text = text_of(WARMING_UP)
    assert "filled 43%" in text and "learning starts at 100%" in text and "mean — last 100" in text


def test_filled_is_that_of_the_least_filled_replay() -> None:
    replays = [
        ReplayFill("queue", 0, 16, 2),
        ReplayFill("standard", 30, 100, 2, needed=20),
        ReplayFill("elite", 5, 100, 2, needed=20),
    ]
    assert changed(WARMING_UP, replays=replays)["filled"] == 0.25
    assert changed(WARMING_UP, replays=replays[:1])["filled"] == 1.0


def test_games_that_do_not_wait_show_their_timing() -> None:
    delayed = text_of(changed(STATUS, **TIMING))
    for fact in ("actions ──", "every 4.00 frames", "age 4.02 frames", "age 95% 5 frames", "oldest 12 frames"):
        assert fact in delayed
    assert "idle 0.5% of time" in delayed and "clock ──" not in delayed and "actions" not in text_of(STATUS)
    timed = changed(STATUS, **TIMING, **CLOCK)
    for fact in ("late 12.0% frames", "inference 20.0 ms", "slowest 81.3 ms", "processes 1.00 needed"):
        assert fact in text_of(timed)
    assert timed.line().endswith("age 4.02   idle 0.5%   late 12.0%")
    assert "every — frames" in text_of(changed(STATUS, **dict.fromkeys({**TIMING, **CLOCK})))


def test_other_nodes_of_a_cluster_have_a_card() -> None:
    status = changed(STATUS, nodes=[NODE, {**NODE, "node": "far", "alive": False}])
    assert "playing 1\nworkers 2\nsteps/s 900" in text_of(status)
    assert status.line().endswith("nodes 1")


def test_extreme_numbers_are_shown_and_raise_no_error() -> None:
    wild = changed(
        STATUS,
        **{"max_steps": 0, "agent_steps": 5, "seconds": math.inf, "speed": 5e-324, "return_mean": math.nan},
        **{"policy_loss": math.nan, "value_loss": math.inf, "learning_rate": math.nan},
        replays=[ReplayFill("queue", 9, 0, 0)],
    )
    text = text_of(wild)
    assert "100.0%" in text and "policy nan" in text
    assert "return nan" in wild.line()
    assert all("left —" in changed(STATUS, speed=speed).line() for speed in (0.0, 5e-324))
    assert "left 0m00s" in changed(STATUS, agent_steps=10_000_100).line()


def test_the_line_is_pairs_of_key_and_value_in_fixed_columns() -> None:
    pairs = dict(pair.split(" ", 1) for pair in re.split(r" {2,}", STATUS.line()))
    assert pairs == {
        **{"done": "41.3%", "steps": "4.13M", "frames": "16.5M", "speed": "2,700/s", "time": "25m31s"},
        **{"left": "36m14s", "games": "1,234", "return": "14.5", "best": "21.0", "entropy": "1.23"},
        **{"wait": "12%", "workers": "2/2"},
    }
    assert "filled 43%" in WARMING_UP.line()
    small = changed(WARMING_UP, agent_steps=7, frames=28, seconds=1.0, episodes=0, speed=3.0)
    large = changed(STATUS, agent_steps=99_999, frames=399_996, return_mean=-999.9, return_max=-999.9, speed=99_999.0)
    for key in pairs.keys() - {"done", "entropy"}:
        assert len({status.line().index(f"  {key} ") for status in (small, STATUS, large)}) == 1, key


def test_a_sparkline_spans_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20) == ["▁▂▃▄▅▆▇█"]
    assert sparkline([3.0, 3.0], 20) == ["▁▁"]
    assert sparkline([], 20, 2) == ["", ""]
    assert sparkline([0, 15], 20, 2) == [" █", "▁█"]
    assert sparkline([0] * 50 + [7] * 50, 4) == ["▁▁██"], "means of many values"


def test_a_trend_keeps_the_whole_history_in_few_samples() -> None:
    trend = Trend(most=8)
    for value in range(100):
        for each in (float(value), math.nan, None):
            trend.add(each)
        assert len(trend.samples) < 8
    distances = {b - a for a, b in zip(trend.samples, trend.samples[1:], strict=False)}
    assert trend.samples[0] == 0 and len(distances) == 1 and 100 - trend.samples[-1] <= max(distances)


# --- A test -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [39, 60, 119])
def test_a_test_has_a_display_and_a_line(width: int) -> None:
    text = text_of(TEST, width)
    facts = ("20.0%", "ended 200 of 1,000", "processes 2", "steps/s 2,000", "elapsed 1m00s", "left 4m00s")
    for fact in (*facts, "mean 3.00", "lowest 1.00", "highest 6.00"):
        assert fact in text, fact
    line = ["done 20.0%", "games 200 of 1,000", "speed 2,000/s", "time 1m00s", "left 4m00s", "return 3.00"]
    assert re.split(r" {2,}", TEST.line()) == line
    empty = status_of_test(10, 2, 0.0, [], 0)
    assert "left —" in empty.line() and lines_of(empty)


def test_the_results_are_an_aligned_table() -> None:
    assert result_lines(RESULT) == [
        "1,000 games in 125 s, 2,346 agent steps/s",
        "return  mean                 14.5  13.9 to 15.1 with 95% confidence",
        "        median               15.0",
        "        standard deviation   3.20",
        "        lowest              -21.0",
        "        highest              21.0",
        "        human-normalised      97%  0% is random play, 100% a human tester",
        "length  mean                1,234  agent steps",
        "        cut off                 3  games",
    ]


def test_the_results_of_one_game_of_many_have_no_interval() -> None:
    lines = result_lines({**RESULT, "games": 1, "return_mean_95": None, "return_std": None, "human_normalised": None})
    assert lines[0] == "stopped after 1 of 1,000 games, 125 s"
    assert "short games end first" in lines[1]
    assert not re.search("confidence|deviation|human", "\n".join(lines))
