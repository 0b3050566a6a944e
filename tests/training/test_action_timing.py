"""The timing of actions between two reports, in a run and from hand-made unrolls."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.training.catch_runs import CATCH, reports
from tests.training.some_run import some_progress
from training.interval import Interval
from training.train import train
from wrappers.atari import make_atari

LAYOUT = UnrollLayout(4, 1, frame_shape=(1, 1, 1), action_sizes=(2,), delayed_actions=True)


def unroll(
    valid: list[int],
    ages: list[int],
    intervals: list[int],
    frames: int,
    idle: int,
    ended: tuple[int, ...] = (0, 0, 0, 0),
) -> np.ndarray:
    row = np.zeros(LAYOUT.nbytes, np.uint8)
    fields = LAYOUT.arrays(row)
    fields["valid"][:], fields["ages"][:], fields["ended"][:] = valid, ages, ended
    fields["durations"][:] = np.array(intervals) / 3
    fields["played_frames"][...], fields["idle_frames"][...] = frames, idle
    return row


def interval_of(layout: UnrollLayout, **flags: Any) -> Interval:
    return Interval(Config.from_flags(flags), layout)


def test_figures_of_two_unrolls_and_of_a_new_interval() -> None:
    timing = interval_of(LAYOUT, skipped_frames=3)
    timing.add_unroll(unroll([1, 1, 0, 1], [5, 6, 900, 7], [3, 4, 900, 5], frames=12, idle=3))
    timing.add_unroll(unroll([0, 0, 0, 1], [900, 900, 900, 26], [900, 900, 900, 8], frames=8, idle=2))
    expected = {
        "idle_share": 0.25,
        "action_age_mean": 11.0,
        "action_age_95": np.quantile([5, 6, 7, 26], 0.95),
        "action_age_max": 26.0,
        "action_interval_mean": 5.0,
        "action_interval_deviation": np.std([3, 4, 5, 8]),
        "action_interval_max": 8.0,
    }
    assert timing.action_figures() == pytest.approx(expected)
    resumed = interval_of(LAYOUT, skipped_frames=3)
    resumed.load_state_dict(timing.state_dict(1.0), 1.0)
    assert resumed.action_figures() == timing.action_figures()
    timing.begin(1.0, 8)
    assert timing.action_figures() == dict.fromkeys(expected)


def test_the_end_of_an_episode_is_no_effect_of_another_action() -> None:
    timing = interval_of(LAYOUT, skipped_frames=3)
    timing.add_unroll(unroll([1, 1, 1, 1], [5, 6, 7, 8], [3, 1, 3, 3], frames=10, idle=0, ended=(0, 1, 0, 0)))
    figures = timing.action_figures()
    assert (figures["action_interval_mean"], figures["action_interval_deviation"]) == (3.0, 0.0)
    assert figures["action_age_mean"] == 6.5


CLOCK = UnrollLayout(3, 1, frame_shape=(1, 2, 2), action_sizes=(2,), delayed_actions=True, real_time=True)


def clocked(times: list[float], played: int, missed: int, dropped: int, ages: Sequence[int] = (0, 0, 0)) -> Rows:
    row = np.zeros(CLOCK.nbytes, np.uint8)
    CLOCK.array(row, "valid")[:] = 1
    CLOCK.array(row, "ages")[:] = ages
    CLOCK.array(row, "inference_times")[:] = times
    for name, value in (("played_frames", played), ("missed_frames", missed), ("dropped_unrolls", dropped)):
        CLOCK.array(row, name)[...] = value
    return row


def test_the_figures_of_the_clock() -> None:
    timing = interval_of(CLOCK, fps=60.0)
    timing.add_unroll(clocked([100, 0, 130], played=10, missed=1, dropped=2))  # a process died in its second inference
    timing.add_unroll(clocked([160, 210, 150], played=30, missed=4, dropped=0))
    found = timing.clock_figures()
    expected = {
        "missed_share": 5 / 40,
        "inference_ms_mean": 150.0,
        "inference_ms_max": 210.0,
        "needed_processes_mean": 3,  # an interval is 66.7 ms
        "needed_processes_max": 4,
        "lost_decisions": 1,
        "dropped_unrolls": 2,
    }
    assert found == pytest.approx(expected)
    resumed = interval_of(CLOCK, fps=60.0)
    resumed.load_state_dict(timing.state_dict(1.0), 1.0)
    assert resumed.clock_figures() == found, "an interval goes on after a resume"
    timing.begin(1.0, 6)
    assert list(timing.clock_figures().values()) == [None] * 5 + [0, 0]


def test_a_checkpoint_has_the_latest_time_from_screen_to_action() -> None:
    """Of this interval, or of the one before, also if no action took effect since the report or the resume."""
    progress = some_progress(CLOCK, fps=50.0)
    assert progress.state_dict(updates=0)["action_ms"] is None
    progress.count_unroll(clocked([100, 0, 130], 10, 0, 0, ages=[7, 8, 900]))
    assert progress.state_dict(updates=0)["action_ms"] == pytest.approx(140), "seven frames of 20 ms; one was a pause"
    for _ in range(2):
        progress.begin_interval()
        assert progress.state_dict(updates=0)["action_ms"] == pytest.approx(140)
    resumed = some_progress(CLOCK, fps=50.0)
    resumed.load_state_dict(progress.state_dict(updates=0))
    assert resumed.state_dict(updates=0)["action_ms"] == pytest.approx(140)
    progress.count_unroll(clocked([20, 30, 40], 10, 0, 0, ages=[4, 3, 5]))
    assert progress.state_dict(updates=0)["action_ms"] == pytest.approx(60), "three frames"
    turned = some_progress(LAYOUT)
    turned.load_state_dict(progress.state_dict(updates=0))
    assert turned.state_dict(updates=0)["action_ms"] is None, "a resumed run has another interaction"
    assert some_progress(LAYOUT).state_dict(updates=0)["action_ms"] is None


def test_frames_are_those_that_were_played() -> None:
    progress = some_progress(CLOCK)
    assert (progress.frames, progress.frames_per_step) == (0, 4)
    for played in (10, 17):
        progress.count_unroll(clocked([1, 1, 1], played, 0, 0))
    assert (progress.agent_steps, progress.frames) == (6, 27)
    resumed = some_progress(CLOCK)
    resumed.load_state_dict(progress.state_dict(updates=0))
    assert resumed.frames == 27
    resumed.count_unroll(clocked([1, 1, 1], 40, 0, 0))
    assert (resumed.agent_steps, resumed.frames) == (9, 67)


def test_several_learners_play_as_many_frames_each(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = some_progress(CLOCK, learners=2, environment_max_steps=100)
    progress.count_unroll(clocked([1, 1, 1], 30, 0, 0))
    now = 102.0
    assert progress.interval_frames_per_second == pytest.approx(30)


@pytest.mark.parametrize(("interaction", "figures"), [("turns", 0), ("asynchronous", 7), ("realtime", 14)])
def test_each_interaction_has_its_figures(interaction: str, figures: int) -> None:
    layout = UnrollLayout(
        3,
        1,
        frame_shape=(1, 2, 2),
        action_sizes=(2,),
        delayed_actions=interaction != "turns",
        real_time=interaction == "realtime",
    )
    of_turns = interval_of(UnrollLayout(3, 1, frame_shape=(1, 2, 2), action_sizes=(2,))).figures(1.0)
    assert len(interval_of(layout).figures(1.0)) - len(of_turns) == figures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interaction", "delay", "interval", "idle"),
    [("asynchronous", 6, 4, 0.0), ("sequential", 8, 8, 0.5)],
)
def test_a_run_reports_the_delay_that_was_asked_for(
    tmp_path: Path, interaction: str, delay: int, interval: int, idle: float
) -> None:
    flags = {"env": "BoxingNoFrameskip-v4", "interaction": interaction, "action_delay": delay, "envs_per_worker": 4}
    sizes = {"environment_max_steps": 400, "batch_size": 4, "results_dir": str(tmp_path), "max_game_frames": 1_000}
    sizes["frame_scale_resolution"] = "36,36"
    report = reports(train(Config.from_flags({**CATCH, **flags, **sizes}), make_atari))[-1]
    assert report["action_age_mean"] == report["action_age_max"] == delay
    assert report["action_interval_mean"] == report["action_interval_max"] == interval
    assert report["action_interval_deviation"] == 0
    assert report["idle_share"] == pytest.approx(idle, abs=0.05)  # the frames before the first action are idle too
    assert report["frames"] == (400 + 4) * interval, "each of the four games begins with those before its first action"
