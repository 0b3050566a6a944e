"""The curves of a run, with those of the runs that it was resumed from."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dashboard.panels import CHOICES, LEARNING, panel_chart, replay_panels, return_chart, shown_panels
from dashboard.results_folder import ResultsFolder
from dashboard.run_data import RunData
from run_files.run_reader import read_history
from tests.dashboard.some_runs import append_report, report, write_run


def data_of(folder: Path, root: Path | None = None) -> RunData:
    data = RunData(ResultsFolder(root or folder.parent), folder.resolve())
    data.refresh()
    return data


def test_new_reports_and_games_are_added(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", reports=5, games=10)
    data = data_of(folder)
    assert data.history.curve("return_mean").x.tolist() == [1000, 2000, 3000, 4000, 5000]
    assert len(data.history.games.x) == 10
    assert not data.refresh()
    append_report(folder, 6)
    with (folder / "episodes.csv").open("a") as file:
        file.write("5500,21.0,300,1\n")
    assert data.refresh()
    assert data.history.curve("return_mean").x[-1] == 6000
    assert (data.history.games.x[-1], data.history.games.y[-1]) == (5500, 21)
    assert data.problems == []


def test_a_resumed_run_has_the_curve_of_its_parent_up_to_the_checkpoint(tmp_path: Path) -> None:
    parent = write_run(tmp_path / "parent", reports=10)
    child = write_run(tmp_path / "child", reports=0, games=0, status=None, environment_max_steps=10**6,
                      parent={"run": str(parent), "agent_steps": 7000})  # fmt: skip
    for number in (8, 9):
        append_report(child, number)
    history = data_of(child).history
    assert history.curve("return_mean").x.tolist() == [1000 * i for i in range(1, 10)]
    assert history.games.x.max() <= 7000
    assert history.ancestors == {parent.resolve()}


def test_a_resumed_run_keeps_the_origin_of_the_weights_of_its_first_run(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", reports=5, weights_from={"run": "pong", "checkpoint": "pong/1.pt"})
    child = write_run(tmp_path / "child", reports=9, parent={"run": str(first), "agent_steps": 5000})
    assert [data_of(folder).history.weights_from for folder in (first, child)] == ["pong/1.pt", "pong/1.pt"]
    assert read_history(child).weights_from == "pong/1.pt"


@pytest.mark.parametrize(
    "parent", [{"run": "/etc", "agent_steps": 5}, {"run": 3}, {}, {"run": "x", "agent_steps": "many"}, {"run": "child"}]
)
def test_parents_elsewhere_and_nonsense_are_not_read(tmp_path: Path, parent: dict[str, Any]) -> None:
    child = write_run(tmp_path / "results" / "child", reports=3, parent=parent)
    assert data_of(child).history.curve("entropy").x.tolist() == [1000, 2000, 3000]


def test_a_parent_outside_of_the_results_folder_is_not_read(tmp_path: Path) -> None:
    parent = write_run(tmp_path / "outside" / "parent", reports=5)
    child = write_run(tmp_path / "results" / "child", reports=3, parent={"run": str(parent), "agent_steps": 5000})
    assert len(data_of(child).history.reports) == 3
    assert len(data_of(child, tmp_path).history.reports) == 8


def test_broken_lines_and_deleted_folders_are_said_in_sentences(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", reports=3)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"agent_steps": \n[1, 2]\n')
    with (folder / "episodes.csv").open("a") as file:
        file.write("nonsense\n1,nan,3,4\n5,inf,6,7\n1\n")
    data = data_of(folder)
    assert len(data.history.reports) == 3 and len(data.history.games.x) == 30
    assert data.problems == [
        "2 lines are left out of the curves, because metrics.jsonl is damaged there.",
        "4 lines are left out of the curves, because episodes.csv is damaged there.",
    ]
    shutil.rmtree(folder)
    assert data.refresh()
    assert data.problems == ["The folder of this run has been deleted. The page shows what was read before."]


def test_a_deleted_run_without_reports_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", reports=0, games=0, environment_max_steps=10)
    for name in ("metrics.jsonl", "episodes.csv"):
        (folder / name).unlink()
    data = data_of(folder)
    assert data.problems == []
    shutil.rmtree(folder)
    assert data.refresh() and "deleted" in data.problems[0]


def test_a_foreign_config_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "config.json").write_text("{}")
    data = data_of(folder)
    assert data.problems == ["The config.json of this run is cut off, damaged, or was not written by a run."]
    assert data.history.reports == []


@pytest.mark.parametrize(("x", "last"), [("steps", 20_000), ("frames", 80_000), ("hours", 20 / 3600)])
def test_every_game_is_a_dot_over_each_axis(tmp_path: Path, x: str, last: float) -> None:
    history = data_of(write_run(tmp_path / "run")).history
    games, means = return_chart(history, x, log_y=False, log_x=False)["series"]
    assert games["type"] == "scatter" and len(games["data"]) == 30
    assert games["data"][-1] == [pytest.approx(last, rel=1e-5), 29 % 7]
    assert means["data"][-1] == [pytest.approx(last, rel=1e-5), 18.0]


def test_figures_that_a_run_does_not_have_get_no_chart(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run")).history
    titles = [panel.title for panel in shown_panels(LEARNING, history)]
    assert "Entropy of the policy, nats" in titles and "Norm of the gradient" not in titles
    (losses,) = [panel for panel in shown_panels(LEARNING, history) if panel.title == "Terms of the loss"]
    drawn = [series["name"] for series in panel_chart(losses, history, "steps", False, False)["series"]]
    assert drawn == ["policy", "value"]  # the cloning loss is always 0


def test_each_replay_has_a_line_in_the_charts_of_draws(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run")).history
    panels = {panel.title: panel for panel in replay_panels(history)}
    ages = panel_chart(panels["Age of drawn unrolls, updates"], history, "steps", False, False)
    assert [(line["name"], line["data"][-1][1]) for line in ages["series"]] == [
        ("queue (replay 1)", 7),
        ("elite (replay 2)", 60),
    ]
    distances = panel_chart(panels["Distance, elite (replay 2)"], history, "steps", False, False)
    assert [(line["name"], line["data"][-1][1]) for line in distances["series"]] == [
        ("drawn", 1),
        ("all candidates", 2),
    ]


def test_a_logarithmic_axis_has_no_point_that_is_not_positive(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run", final_return=-18.0)).history
    chart = return_chart(history, "steps", log_y=True, log_x=True)
    values = [y for series in chart["series"] for _, y in series["data"]]
    assert None in values and all(y is None or y > 0 for y in values)
    assert chart["xAxis"]["type"] == chart["yAxis"]["type"] == "log"


@pytest.mark.parametrize("x", CHOICES)
def test_a_run_without_reports_has_empty_charts(tmp_path: Path, x: str) -> None:
    history = data_of(write_run(tmp_path / "run", reports=0, games=0, environment_max_steps=10)).history
    assert return_chart(history, x, False, False)["series"] == []
    assert shown_panels(LEARNING, history) == [] == replay_panels(history)


def test_only_the_wanted_figures_are_kept(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    data = RunData(ResultsFolder(tmp_path), folder, names={"agent_steps", "entropy"}, most=5)
    data.refresh()
    assert set(data.history.names()) == {"agent_steps", "entropy"}
    assert not len(data.history.games.x), "of a comparison, which does not draw them"
    with (folder / "episodes.csv").open("a") as file:
        file.write("5500,21.0,300,1\n")
    assert not data.refresh()
    assert data.history.reports[-1]["entropy"] == report(20, 20, 0, 0)["entropy"]
