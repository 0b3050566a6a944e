"""The charts of a run: which figures each shows."""

from pathlib import Path

import pytest

from dashboard.panels import CHOICES, LEARNING, panel_chart, replay_panels, return_chart, shown_panels
from dashboard.results_folder import ResultsFolder
from run_files.run_reader import RunReader
from tests.dashboard.some_runs import write_run


def data_of(folder: Path, root: Path | None = None) -> RunReader:
    data = ResultsFolder(root or folder.parent).reader(folder.resolve())
    data.refresh()
    return data


def test_a_parent_outside_of_the_results_folder_is_not_read(tmp_path: Path) -> None:
    parent = write_run(tmp_path / "outside" / "parent", reports=5)
    child = write_run(tmp_path / "results" / "child", reports=3, parent={"run": str(parent), "agent_steps": 5000})
    assert len(data_of(child).history.reports) == 3
    assert len(data_of(child, tmp_path).history.reports) == 8


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
