"""What an environment says of its finished games, in all reports of a run."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from option_flags import Config
from options.rules import UsageError
from replay.unroll_layout import GAME_INFO_BYTES, UnrollLayout, add_game_info, read_game_info
from reports.panels import LEARNING, shown
from run_files.metrics import flat_numbers
from tests.permitted import PERMITTED
from tests.reports.rendering import as_lines
from tests.reports.statuses import STATUS, changed
from tests.training.catch_runs import CATCH, reports, resume_run
from tests.training.some_run import some_progress
from training.progress import Progress
from training.train import train
from wrappers.any_environment.adapter import MOST_SAID, said_of_game
from wrappers.make_environment import make_environment

LAYOUT = UnrollLayout(20, 1, frame_shape=(1, 4, 4), action_sizes=(2,), tells_of_games=True)


@pytest.mark.slow
def test_a_run_reports_what_is_said_of_its_games_and_ends_at_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {**CATCH, "env": PERMITTED, "results_dir": str(tmp_path), "console": "plain", "avg_buff_size": 30}
    given = {"environment_max_steps": 4_000, "episode_info": "stats.coins", "stop_at": "success:0.1"}
    folder = train(Config.from_flags({**flags, **given}), make_environment)
    last = reports(folder)[-1]
    assert last["agent_steps"] < 4_000
    with (folder / "episodes.csv").open(newline="") as file:
        games = list(csv.DictReader(file))
    assert list(games[0]) == ["agent_steps", "return", "length", "worker", "stats.coins", "last", "success"]
    assert all(float(game["stats.coins"]) == float(game["return"]) for game in games)
    for name in ("stats.coins", "last", "success"):
        assert last["environment"][name] == pytest.approx(np.mean([float(game[name]) for game in games[-30:]]))
    (panel,) = shown(LEARNING, [name for name in flat_numbers(last) if "environment" in name])
    assert [label for _, label in panel.figures] == ["last", "stats.coins", "success"]
    why = "the mean success of the last 30 games reached --stop_at=success:0.1"
    assert why in capsys.readouterr().out.splitlines()
    assert json.loads((folder / "summary.json").read_text())["why"] == why
    with pytest.raises(UsageError, match=r"^--stop_at=success:0.1 is already reached: the run ended at it"):
        resume_run(folder, make_environment, stop_at="success:0.1")
    child = resume_run(folder, make_environment, environment_max_steps=last["agent_steps"] + 400)
    assert "--stop_at=success:0.1 was reached, so the run goes on without it" in capsys.readouterr().out
    assert reports(child)[0]["environment"].keys() == last["environment"].keys()


def test_all_numbers_of_the_last_info_are_said_and_nested_ones_by_name() -> None:
    info = {
        **{"success": True, "coins": np.float32(2.5), "array": np.ones(3), "text": "x", "nan": np.nan, "a,b": 1},
        **{
            "stats": {"deep": {"gold": 7}},
            "episode": {"r": 3.0, "l": 5, "t": 0.1, "hits": np.int64(4)},
            "length": 9,
            "worker": 3,
        },
    }
    assert said_of_game(info, []) == {"hits": 4.0, "success": 1.0, "coins": 2.5}
    said = said_of_game(info, ["stats.deep.gold", "coins", "stats.none", "text"])
    assert list(said.items())[:2] == [("stats.deep.gold", 7.0), ("coins", 2.5)] and len(said) == 4
    assert said_of_game({"agent_steps": 7, "worker": 3}, ["worker"]) == {}, "columns of episodes.csv already"
    assert said_of_game(None, ["success"]) == {}
    assert len(said_of_game({f"number_{place}": place for place in range(100)}, ["number_99"])) == MOST_SAID


def test_an_unroll_holds_what_is_said_of_its_games() -> None:
    field = LAYOUT.array(np.zeros(LAYOUT.nbytes, np.uint8), "game_info")
    assert read_game_info(field) == []
    largest = {f"{place:032}": -1.7976931348623157e308 for place in range(MOST_SAID)}
    for games in ([{"success": 1.0}, {}, {"coins": 3.0}], [largest]):
        field[:] = 0
        for game in games:
            add_game_info(field, game)
        assert read_game_info(field) == games
    for place in range(100):
        add_game_info(field, {"place": float(place)})
    kept = read_game_info(field)
    assert kept == [{"place": float(place)} for place in range(100 - len(kept), 100)] and len(kept) > 20
    assert len(field) == GAME_INFO_BYTES


def test_means_are_over_the_games_that_say_it() -> None:
    progress = Progress(Config.from_flags({"env": PERMITTED, "avg_buff_size": 3, "stop_at": "coins:2"}), LAYOUT)
    reached = []
    for said in ({}, {"coins": 1.0}, {"coins": 3.0}, {"coins": 2.0, "success": 1.0}):
        row = np.zeros(LAYOUT.nbytes, np.uint8)
        LAYOUT.array(row, "game_lengths")[5] = 7
        add_game_info(LAYOUT.array(row, "game_info"), said)
        assert progress.count_unroll(row)[0].info == said
        reached.append(progress.goal_reached)
    assert reached == [False, False, False, True], "not before all games of the window say it"
    assert progress.figures()["environment"] == {"coins": 2.0, "success": 1.0}
    resumed = some_progress(LAYOUT, avg_buff_size=3)
    resumed.load_state_dict(progress.state_dict(updates=0))
    assert resumed.figures()["environment"] == {"coins": 2.0, "success": 1.0}
    assert "environment" not in some_progress().figures()


def test_a_goal_that_no_game_has_is_named() -> None:
    progress = Progress(Config.from_flags({"env": PERMITTED, "avg_buff_size": 2, "stop_at": "sucess:1"}), LAYOUT)
    found = []
    for said in ({"success": 1.0}, {}, {"sucess": 1.0}):
        row = np.zeros(LAYOUT.nbytes, np.uint8)
        LAYOUT.array(row, "game_lengths")[5] = 7
        add_game_info(LAYOUT.array(row, "game_info"), said)
        progress.count_unroll(row)
        found.append(progress.unknown_goal())
    sentence = (
        "--stop_at=sucess:1 cannot end the run: its games have no number sucess; they have length, return, success"
    )
    assert found == [None, sentence, None]


def test_the_display_shows_what_an_environment_says() -> None:
    told = changed(STATUS, environment={"caught": 0.25, "never": None})
    lines = as_lines(told.view(79, []), 79)
    assert any(line.startswith("caught 0.250  never —") for line in lines)
    assert not any("environment" in line for line in as_lines(STATUS.view(79, []), 79))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"stop_at": "success"}, "--stop_at must be NAME:NUMBER, such as success:0.95, not"),
        ({"stop_at": "success:high"}, "--stop_at must be NAME:NUMBER"),
        ({"stop_at": "length:1.2.3"}, "--stop_at must be NAME:NUMBER"),
        ({"stop_at": "length:9", "stop_at_return": 3.0}, "--stop_at=length:9 and --stop_at_return=3 are two ends"),
        ({"stop_at": "success:0.9"}, "--stop_at=success:0.9: of the games of --env=PongNoFrameskip-v4 only return"),
        ({"episode_info": "a b"}, "--episode_info must be names of at most 32 letters"),
    ],
)
def test_other_goals_and_names_are_refused(flags: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}"):
        Config.from_flags(flags)
    assert Config.from_flags({"env": PERMITTED, "stop_at": "success:0.9"}).run.goal == ("success", 0.9)
