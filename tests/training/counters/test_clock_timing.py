"""What a run in real time reports of its clock, from hand-made unrolls."""

import time
from collections.abc import Sequence

import numpy as np
import pytest

from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.training.some_run import some_progress
from training.counters.action_timing import ActionTiming
from training.counters.clock_timing import ClockTiming, make_timing

LAYOUT = UnrollLayout(3, 1, (1, 2, 2), 2, delayed_actions=True, real_time=True)


def unroll(times: list[float], played: int, missed: int, dropped: int, ages: Sequence[int] = (0, 0, 0)) -> Rows:
    row = np.zeros(LAYOUT.nbytes, np.uint8)
    LAYOUT.array(row, "valid")[:] = 1
    LAYOUT.array(row, "ages")[:] = ages
    LAYOUT.array(row, "inference_times")[:] = times
    for name, value in (("played_frames", played), ("missed_frames", missed), ("dropped_unrolls", dropped)):
        LAYOUT.array(row, name)[...] = value
    return row


def test_the_figures_of_the_clock() -> None:
    timing = ClockTiming(LAYOUT, skipped_frames=4, fps=60.0)
    timing.add(unroll([100, 0, 130], played=10, missed=1, dropped=2))  # a process died in its second inference
    timing.add(unroll([160, 210, 150], played=30, missed=4, dropped=0))
    found = timing.figures()
    expected = {
        "missed_share": 5 / 40,
        "inference_ms_mean": 150.0,
        "inference_ms_max": 210.0,
        "needed_processes_mean": 3,  # an interval is 66.7 ms
        "needed_processes_max": 4,
        "lost_decisions": 1,
        "dropped_unrolls": 2,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    resumed = ClockTiming(LAYOUT, skipped_frames=4, fps=60.0)
    resumed.load_state_dict(timing.state_dict())
    assert resumed.figures() == found, "an interval goes on after a resume"
    timing.begin()
    empty = timing.figures()
    assert [empty[name] for name in expected] == [None] * 5 + [0, 0]


def test_a_checkpoint_has_the_latest_time_from_screen_to_action() -> None:
    """Of this interval, or of the one before, also if no action took effect since the report or the resume."""
    timing = ClockTiming(LAYOUT, skipped_frames=4, fps=50.0, processes=2)
    progress = some_progress(LAYOUT, timing)
    assert progress.state_dict(updates=0)["action_ms"] is None
    progress.count_unroll(unroll([100, 0, 130], 10, 0, 0, ages=[7, 8, 900]))
    assert progress.state_dict(updates=0)["action_ms"] == pytest.approx(140), "seven frames of 20 ms; one was a pause"
    for _ in range(2):
        progress.begin_interval()
        assert progress.state_dict(updates=0)["action_ms"] == pytest.approx(140)
    resumed = some_progress(LAYOUT, ClockTiming(LAYOUT, skipped_frames=4, fps=50.0))
    resumed.load_state_dict(progress.state_dict(updates=0))
    assert resumed.state_dict(updates=0)["action_ms"] == pytest.approx(140)
    progress.count_unroll(unroll([20, 30, 40], 10, 0, 0, ages=[4, 3, 5]))
    assert progress.state_dict(updates=0)["action_ms"] == pytest.approx(60), "three frames"
    assert progress.state_dict(updates=0)["inference_processes"] == 2
    in_frames = some_progress(LAYOUT, ActionTiming(LAYOUT, 4))
    assert in_frames.state_dict(updates=0)["action_ms"] is None
    assert "action_ms" not in some_progress(LAYOUT).state_dict(updates=0)


def test_frames_are_those_that_were_played() -> None:
    timing = ClockTiming(LAYOUT, skipped_frames=4, fps=60.0)
    progress = some_progress(LAYOUT, timing)
    assert (progress.frames, progress.frames_per_step) == (0, 4)
    for played in (10, 17):
        progress.count_unroll(unroll([1, 1, 1], played, 0, 0))
    assert (progress.agent_steps, progress.frames) == (6, 27)
    resumed = some_progress(LAYOUT, timing)
    resumed.load_state_dict(progress.state_dict(updates=0))
    assert resumed.frames == 27
    resumed.count_unroll(unroll([1, 1, 1], 40, 0, 0))
    assert (resumed.agent_steps, resumed.frames) == (9, 67)


def test_several_learners_play_as_many_frames_each(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    timing = ClockTiming(LAYOUT, skipped_frames=4, fps=60.0)
    progress = some_progress(LAYOUT, timing, learners=2, environment_max_steps=100)
    progress.count_unroll(unroll([1, 1, 1], 30, 0, 0))
    now = 102.0
    assert progress.interval_frames_per_second == pytest.approx(30)


@pytest.mark.parametrize(
    ("interaction", "kind"), [("turns", None), ("asynchronous", ActionTiming), ("realtime", ClockTiming)]
)
def test_each_interaction_has_its_figures(interaction: str, kind: type | None) -> None:
    layout = UnrollLayout(
        3, 1, (1, 2, 2), 2, delayed_actions=interaction != "turns", real_time=interaction == "realtime"
    )
    timing = make_timing(Config.from_flags({"interaction": interaction}), layout, 1)
    assert kind is type(timing) if kind else timing is None
