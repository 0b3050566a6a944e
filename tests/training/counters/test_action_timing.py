"""The timing of actions between two reports, in a run and from hand-made unrolls."""

from pathlib import Path

import numpy as np
import pytest

from option_flags import Config
from replay.unroll_layout import UnrollLayout
from tests.training.catch_runs import CATCH, reports
from training.counters.action_timing import ActionTiming
from training.train import train
from wrappers.atari import make_atari

LAYOUT = UnrollLayout(4, 1, (1, 1, 1), 2, delayed_actions=True)


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


def test_figures_of_two_unrolls_and_of_a_new_interval() -> None:
    timing = ActionTiming(LAYOUT, skipped_frames=3)
    timing.add(unroll([1, 1, 0, 1], [5, 6, 900, 7], [3, 4, 900, 5], frames=12, idle=3))
    timing.add(unroll([0, 0, 0, 1], [900, 900, 900, 26], [900, 900, 900, 8], frames=8, idle=2))
    expected = {
        "idle_share": 0.25,
        "action_age_mean": 11.0,
        "action_age_95": np.quantile([5, 6, 7, 26], 0.95),
        "action_age_max": 26.0,
        "action_interval_mean": 5.0,
        "action_interval_deviation": np.std([3, 4, 5, 8]),
        "action_interval_max": 8.0,
    }
    assert timing.figures() == pytest.approx(expected)
    resumed = ActionTiming(LAYOUT, skipped_frames=3)
    resumed.load_state_dict(timing.state_dict())
    assert resumed.figures() == timing.figures()
    timing.begin()
    assert timing.figures() == dict.fromkeys(expected)


def test_the_end_of_an_episode_is_no_effect_of_another_action() -> None:
    timing = ActionTiming(LAYOUT, skipped_frames=3)
    timing.add(unroll([1, 1, 1, 1], [5, 6, 7, 8], [3, 1, 3, 3], frames=10, idle=0, ended=(0, 1, 0, 0)))
    figures = timing.figures()
    assert (figures["action_interval_mean"], figures["action_interval_deviation"]) == (3.0, 0.0)
    assert figures["action_age_mean"] == 6.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interaction", "delay", "interval", "idle"),
    [("turns", 0, None, None), ("asynchronous", 6, 4, 0.0), ("sequential", 8, 8, 0.5)],
)
def test_a_run_reports_the_delay_that_was_asked_for(
    tmp_path: Path, interaction: str, delay: int, interval: int | None, idle: float | None
) -> None:
    flags = {"env": "BoxingNoFrameskip-v4", "interaction": interaction, "action_delay": delay, "envs_per_worker": 4}
    sizes = {"environment_max_steps": 600, "batch_size": 4, "results_dir": str(tmp_path)}
    report = reports(train(Config.from_flags({**CATCH, **flags, **sizes}), make_atari))[-1]
    if interval is None or idle is None:
        assert "idle_share" not in report
        return
    assert report["action_age_mean"] == report["action_age_max"] == delay
    assert report["action_interval_mean"] == report["action_interval_max"] == interval
    assert report["action_interval_deviation"] == 0
    assert report["idle_share"] == pytest.approx(idle, abs=0.05)  # the frames before the first action are idle too
    assert report["frames"] == 600 * interval
