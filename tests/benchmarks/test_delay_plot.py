"""Return and regret against delay: which runs form an arm, the figures, and messages for wrong input."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from option_flags import EnvironmentOptions
from run_files.run_reader import read_histories
from tests.benchmarks.delay_plot import arm_of, by_game, draw, outcome, regrets, table, usable
from tests.benchmarks.keep_curves import ArchivedRun, write_archive

BOXING = "BoxingNoFrameskip-v4"


def run(
    interaction: str,
    delay: int,
    returns: float,
    *,
    idle: str = "noop",
    env: str = BOXING,
    seed: int = 1,
    planned: int = 1000,
    name: str = "",
) -> ArchivedRun:
    """Two reports of 1,000 and 3,000 frames, that took 2 and 5 core-seconds for a thousand frames."""
    options = {"env": env, "interaction": interaction, "action_delay": delay, "idle_action": idle, "seed": seed}
    options["environment_max_steps"] = planned
    reports = [
        {"agent_steps": 250.0, "frames": 1000.0, "return_mean": -9.0, "core_seconds_per_1000_frames": 2.0},
        {"agent_steps": 1000.0, "frames": 4000.0, "return_mean": returns, "core_seconds_per_1000_frames": 5.0},
    ]
    return ArchivedRun(name or f"{interaction}{delay}{idle}{seed}{env}", options, {}, reports)


RUNS = [
    run("asynchronous", 0, 40.0),
    run("asynchronous", 4, 30.0),
    run("asynchronous", 8, 20.0),
    run("asynchronous", 8, 26.0, seed=2),
    run("sequential", 8, 5.0),
    run("sequential", 8, 11.0, idle="repeat"),
]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl.gz"
    write_archive(path, RUNS)
    return path


def test_arms_and_regrets(archive: Path) -> None:
    outcomes, left_out = usable(read_histories(archive))
    assert not left_out
    (arms,) = by_game(outcomes).values()
    returns = {arm: {delay: [one.return_mean for one in of[delay]] for delay in of} for arm, of in arms.items()}
    assert returns == {
        "asynchronous": {0: [40.0], 4: [30.0], 8: [20.0, 26.0]},
        "sequential, noop": {0: [40.0], 4: [30.0], 8: [5.0]},
        "sequential, repeat": {0: [40.0], 4: [30.0], 8: [11.0]},
    }
    assert regrets(arms) == {
        "delay": {0: 0.0, 4: 10.0, 8: 17.0},
        "inaction, sequential, noop": {0: 0.0, 4: 0.0, 8: 18.0},
        "inaction, sequential, repeat": {0: 0.0, 4: 0.0, 8: 12.0},
    }


def test_runs_that_cannot_be_compared_are_named_and_resumed_ones_count_once(tmp_path: Path) -> None:
    archive = tmp_path / "runs.jsonl.gz"
    others = [
        run("asynchronous", 8, 3.0, name="resumed"),
        run("asynchronous", 16, 3.0, planned=2000, name="half"),
        run("realtime", 0, 3.0, name="clock"),
        run("sequential", 16, 3.0, name="no_game"),
    ]
    without = [{name: value for name, value in each.items() if name != "return_mean"} for each in RUNS[0].reports]
    others[3] = others[3]._replace(reports=without)
    write_archive(archive, [*RUNS, *others])
    histories = read_histories(archive)
    resumed = next(history for history in histories if history.options["action_delay"] == 8)
    (old,) = [history for history in histories if history.folder.name == "resumed"]
    histories[histories.index(resumed)] = dataclasses.replace(resumed, ancestors=frozenset({old.folder.resolve()}))
    outcomes, left_out = usable(histories)
    assert sorted(each.return_mean for each in outcomes) == [5.0, 11.0, 20.0, 26.0, 30.0, 40.0]
    assert [text.rpartition(": ")[2] for text in left_out] == [
        "it has made 1,000 of 2,000 steps",
        "it was played by the clock, and its delay is not a number of frames",
        "no game has ended",
    ]


def test_a_part_of_a_sweep_has_regrets_of_what_is_there_only(tmp_path: Path) -> None:
    runs = [run("asynchronous", delay, 40.0 - delay) for delay in (0, 16, 30)] + [run("sequential", 30, 5.0)]
    write_archive(tmp_path / "runs.jsonl.gz", runs)
    arms = by_game(usable(read_histories(tmp_path / "runs.jsonl.gz"))[0])[BOXING]
    assert list(arms["sequential, noop"]) == [0, 30], "nothing is known about 16 frames"
    assert regrets(arms)["inaction, sequential, noop"] == {0: 0.0, 30: 5.0}


def test_the_cost_of_a_run_counts_each_frame_once(archive: Path) -> None:
    first = outcome(read_histories(archive)[0])
    assert (first.core_seconds, first.frames) == (2 * 1.0 + 5 * 3.0, 4000.0)


@pytest.mark.parametrize("known", [0, 1])
def test_a_run_whose_cost_is_not_known_is_not_among_the_costs(archive: Path, known: int) -> None:
    """Of the two reports of one run so many have the cost; a node of a cluster may join later."""
    first, *others = read_histories(archive)
    cost = "core_seconds_per_1000_frames"
    costs_known = np.where(np.arange(2) < known, first.reports[cost], np.nan)
    reports = {**first.reports, cost: costs_known}
    outcomes, left_out = usable([dataclasses.replace(first, reports=reports), *others])
    assert not left_out and [each.core_seconds is None for each in outcomes] == [True] + [False] * len(others)
    _, _, costs = draw(by_game(outcomes), {}).axes
    assert len(costs.get_lines()) == len(others)
    assert {text.get_text() for text in costs.texts} == {"4", "8"}, "not the delay 0 of that run"


def test_without_asynchronous_runs_there_is_no_such_arm(tmp_path: Path) -> None:
    write_archive(tmp_path / "runs.jsonl.gz", [run("sequential", 8, 5.0), run("sequential", 16, 4.0)])
    games = by_game(usable(read_histories(tmp_path / "runs.jsonl.gz"))[0])
    assert list(games[BOXING]) == ["sequential, noop"]
    assert not [line for line in table(games, {}) if "asynchronous" in line]
    assert next(line.get_label() for line in draw(games, {}).axes[0].get_lines()) == "sequential, noop"


def test_a_run_that_is_given_twice_is_one_seed(archive: Path) -> None:
    histories = read_histories(archive)
    assert usable([*histories, *histories]) == usable(histories)


@pytest.mark.parametrize(
    ("options", "arm"),
    [
        ({}, "asynchronous"),
        ({"interaction": "sequential", "action_delay": 4}, "asynchronous"),
        ({"interaction": "sequential", "action_delay": 5}, "sequential, noop"),
        ({"interaction": "sequential", "action_delay": 3, "skipped_frames": 2}, "sequential, noop"),
    ],
)  # fmt: skip
def test_short_delays_of_sequential_interaction_are_those_of_asynchronous(options: dict[str, Any], arm: str) -> None:
    assert arm_of(EnvironmentOptions(**options)) == arm


@pytest.mark.slow
def test_two_games_are_drawn_and_their_table_has_all_arms(tmp_path: Path) -> None:
    write_archive(tmp_path / "runs.jsonl.gz", [*RUNS, run("turns", 0, 7.0, env="KrullNoFrameskip-v4")])
    games = by_game(usable(read_histories(tmp_path / "runs.jsonl.gz"))[0])
    floors = {BOXING: {"random": 0.5, "idle": -2.0}}
    assert len(draw(games, floors).axes) == 6
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table(games, floors)]
    assert ["Boxing", "asynchronous", "40", "30", "20/26"] in lines
    assert ["Boxing", "sequential, repeat", "40", "30", "11"] in lines
    assert ["Boxing", "idle policy", "-2"] in lines
    assert ["Krull", "asynchronous", "7"] in lines
