"""The counters of a run, its speed, and the sums of an interval."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from replay.mix import Batch
from run_files.metrics import Episode
from tests.training.some_run import LAYOUT, some_progress
from training.progress import Progress


def test_the_speed_is_known_after_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = some_progress()
    speeds = []
    for now, steps in ((3.0, 0), (5.0, 0), (5.005, 320), (5.5, 320), (6.0, 1320), (7.0, 2320), (9.0, 2320)):  # noqa: B007
        progress.agent_steps = steps
        speeds.append(progress.recent_speed())
    assert speeds[:4] == [None] * 4
    assert speeds[4:] == pytest.approx([1000 / 0.995, 2000 / 1.995, 2000 / 3.995])


@pytest.mark.parametrize("period", [0.25, 10.0, 60.0])
def test_the_speed_is_that_of_the_latest_seconds(monkeypatch: pytest.MonkeyPatch, period: float) -> None:
    """Regardless of how often it is read, it follows a change of speed within a minute."""
    now, calls = 0.0, round(120 / period)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = some_progress()
    for speed in (1000.0, 3000.0):
        for _ in range(calls):
            now += period
            progress.agent_steps += round(speed * period)
            shown = progress.recent_speed()
        assert shown == pytest.approx(speed)


def play_games(progress: Progress, *returns: float) -> None:
    """Count an unroll for each of these returns, in which a game with it ends."""
    for game_return in returns:
        row = np.zeros(LAYOUT.nbytes, np.uint8)
        LAYOUT.array(row, "game_lengths")[5] = 7
        LAYOUT.array(row, "game_returns")[5] = game_return
        progress.count_unroll(row)


def test_the_goal_is_the_mean_of_a_full_window() -> None:
    progress = some_progress(environment_max_steps=10_000, avg_buff_size=3, stop_at_return=2.0)
    reached = []
    for game_return in (9.0, 9.0, -16.0, 12.0, 10.0, 0.0):
        play_games(progress, game_return)
        reached.append(progress.goal_reached)
    assert reached == [False, False, False, False, True, True], "the means of three games are 0.67, 1.67, 2, 7.33"
    assert progress.is_complete and progress.unrolls_left
    play_games(progress, -99.0)
    assert progress.goal_reached, "what ends after that changes nothing"
    assert progress.state_dict(updates=0)["reached_goal"] == ["return", 2.0]
    assert some_progress().state_dict(updates=0)["reached_goal"] is None


def test_without_a_goal_only_the_steps_end_a_run() -> None:
    progress = some_progress(avg_buff_size=1)
    play_games(progress, *[1e9] * 49)
    assert not progress.is_complete
    play_games(progress, 0.0)
    assert progress.is_complete, "1,000 steps"


@pytest.mark.parametrize(
    ("returns", "never"),
    [([], False), ([0.0], True), ([0.0, 0.0], True), ([0.0, 1.0], False), ([-1.0, 0.0], False)],
)
def test_a_run_knows_whether_any_game_ever_scored(returns: list[float], never: bool) -> None:
    """Also of the runs that it was resumed from, where its window holds none of their games."""
    first = some_progress(avg_buff_size=1)
    play_games(first, *returns)
    resumed = some_progress(avg_buff_size=1)
    resumed.load_state_dict(first.state_dict(updates=0))
    assert first.never_scored == resumed.never_scored == never
    play_games(resumed, 0.0)
    assert resumed.never_scored == (never or not returns)


def test_a_resumed_run_adds_to_the_figures_of_its_interval_on_another_device() -> None:
    """A checkpoint's figures are on the CPU; `meta` stands for a GPU."""
    batch = Batch(torch.zeros((1, LAYOUT.nbytes), dtype=torch.uint8), np.array([True]))
    first = some_progress()
    first.count_update(batch, {"total_loss": torch.tensor(2.0)}, updates=1)
    resumed = some_progress()
    resumed.load_state_dict(first.state_dict(updates=1))
    resumed.count_update(batch, {"total_loss": torch.tensor(4.0)}, updates=2)
    assert resumed.interval.learned() == {"total_loss": 3.0}
    resumed.count_update(batch, {"total_loss": torch.tensor(0.0, device="meta")}, updates=3)
    assert resumed.interval.updates == 3


def test_figures_of_another_loss_begin_anew() -> None:
    batch = Batch(torch.zeros((1, LAYOUT.nbytes), dtype=torch.uint8), np.array([True]))
    first = some_progress()
    first.count_update(batch, {"total_loss": torch.tensor(2.0)}, updates=1)
    resumed = some_progress()
    resumed.load_state_dict(first.state_dict(updates=1))
    resumed.count_update(batch, {"total_loss": torch.tensor(4.0), "new_loss": torch.tensor(1.0)}, updates=2)
    assert resumed.interval.learned() == {"total_loss": 4.0, "new_loss": 1.0}


def test_policy_lag_is_measured_on_fresh_unrolls_only() -> None:
    rows = np.zeros((3, LAYOUT.nbytes), np.uint8)
    LAYOUT.array(rows, "weight_version")[:] = [1, 0, 3]  # the second one is replayed
    progress = some_progress()
    batch = Batch(torch.from_numpy(rows), np.array([True, False, True]))
    progress.count_update(batch, {"total_loss": torch.tensor(0.0)}, updates=6)
    figures = progress.figures()
    assert (figures["policy_lag_mean"], figures["policy_lag_max"]) == (3.0, 4), (
        "the update used the weights of version 5"
    )


def test_the_mean_return_is_that_of_the_latest_games() -> None:
    progress = some_progress(avg_buff_size=3)
    was_best = []
    for game_return in (1.0, 9.0, 2.0, 4.0):
        row = np.zeros(LAYOUT.nbytes, np.uint8)
        LAYOUT.array(row, "game_lengths")[5], LAYOUT.array(row, "game_returns")[5] = 50, game_return
        progress.count_unroll(row)
        was_best.append(progress.is_best)
    assert progress.return_mean == 5.0
    assert was_best == [False, False, True, True], "a full window is enough games, even a small one"
    larger, smaller = some_progress(avg_buff_size=4), some_progress(avg_buff_size=2)
    for resumed, mean in ((larger, 5.0), (smaller, 3.0)):
        resumed.load_state_dict(progress.state_dict(updates=0))
        assert resumed.return_mean == mean


def test_each_run_adds_frames_by_its_own_skipped_frames() -> None:
    first = some_progress(skipped_frames=4)
    first.agent_steps = 100
    second = some_progress(skipped_frames=2)
    second.load_state_dict(first.state_dict(updates=0))
    second.agent_steps += 50
    assert second.frames == 400 + 100
    third = some_progress(skipped_frames=3)
    third.load_state_dict(second.state_dict(updates=0))
    third.agent_steps += 1
    assert third.frames == 503


@pytest.mark.parametrize("interaction", ["asynchronous", "sequential"])
def test_frames_of_games_that_do_not_wait_are_those_that_were_played(interaction: str) -> None:
    """The last step of a game may be cut short."""
    layout = replace(LAYOUT, delayed_actions=True)
    progress = some_progress(layout, interaction=interaction, action_delay=30)
    row = np.zeros(layout.nbytes, np.uint8)
    layout.array(row, "played_frames")[...] = 70
    progress.count_unroll(row)
    assert progress.frames == 70


def test_an_episode_is_reported_at_the_step_that_ended_it() -> None:
    progress = some_progress(envs_per_worker=4)
    row = np.zeros(LAYOUT.nbytes, np.uint8)
    assert progress.count_unroll(row) == []
    LAYOUT.array(row, "game_lengths")[5], LAYOUT.array(row, "game_returns")[5] = 50, -3.0
    LAYOUT.array(row, "environment_id")[...] = 9
    (episode,) = progress.count_unroll(row)
    assert episode == Episode(20 + 6, -3.0, 50, 2), "six steps of the second unroll; environment 9 belongs to worker 2"
    assert (progress.agent_steps, progress.episodes, progress.return_max) == (40, 1, -3.0)


@pytest.mark.parametrize(("max_steps", "unrolls"), [(1, 1), (20, 1), (21, 2), (1000, 50), (1010, 51)])
def test_the_last_unroll_is_played_to_its_end(max_steps: int, unrolls: int) -> None:
    progress = some_progress(environment_max_steps=max_steps)
    for left in range(unrolls, 0, -1):
        assert progress.unrolls_left == left
        progress.count_unroll(np.zeros(LAYOUT.nbytes, np.uint8))
    assert progress.unrolls_left == 0


def test_a_return_that_only_equals_the_best_is_not_the_best() -> None:
    progress = some_progress()
    play_games(progress, *[1.5] * 19)
    assert not progress.is_best, "too few games"
    play_games(progress, 1.5)
    assert progress.is_best
    progress.best_return_mean = 1.5
    assert not progress.is_best
    play_games(progress, 2.0)
    assert progress.is_best
