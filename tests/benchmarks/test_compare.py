"""The comparison of settings: its statistics against slow versions, and a run that is interrupted and goes on."""

import argparse
import itertools

import numpy as np
import pytest

from tests.benchmarks.compare import Setting, planned, setting
from tests.benchmarks.comparison_tables import Finished, comparison_lines, improvement, low_share


def test_probability_of_improvement_counts_pairs() -> None:
    own = {"Pong": np.array([1.0, 5.0, 3.0]), "Boxing": np.array([2.0, 2.0])}
    others = {"Pong": np.array([0.0, 3.0]), "Boxing": np.array([2.0, 9.0])}
    by_game = []
    for game, runs in own.items():
        pairs = list(itertools.product(runs, others[game]))
        by_game.append(sum(1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs) / len(pairs))
    assert float(improvement(own, others)) == pytest.approx(sum(by_game) / 2)


def test_low_games_tell_two_kinds_from_one() -> None:
    assert low_share([19.0, 20.0, 20.0, -10.0]) == 0.25
    assert low_share([20.0, 20.0]) == 0.0


def test_a_better_setting_is_seen_in_the_tables() -> None:
    runs = [
        Finished(name, game, seed, (value + seed,), 100.0)
        for name, value in (("control", 0.0), ("better", 10.0))
        for game in ("Pong", "Breakout")
        for seed in (1, 2, 3)
    ]
    lines = comparison_lines(runs, ["control", "better"], 12)
    assert "12 of 12 runs" in lines[0]
    assert [line for line in lines if line.startswith("better") and "100%" in line]


def test_settings_have_a_name_a_commit_and_flags() -> None:
    assert setting("norm@5db2d8d: --lr=1e-3 --network=nature") == Setting(
        "norm", "5db2d8d", ("--lr=1e-3", "--network=nature")
    )
    assert setting("defaults") == Setting("defaults", None, ())
    with pytest.raises(argparse.ArgumentTypeError):
        setting(": --lr=1")


def test_settings_take_turns() -> None:
    names = [(run.setting.name, run.seed) for run in planned([setting("a"), setting("b")], ["Pong"], [1, 2])]
    assert names == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
