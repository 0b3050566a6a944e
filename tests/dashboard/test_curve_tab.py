"""The charts of a run: which figures each shows."""

from pathlib import Path

import pytest

pytest.importorskip("nicegui")

from dashboard.charts import Frame
from dashboard.curve_tab import panel_chart, return_chart
from dashboard.results_folder import ResultsFolder
from reports.panels import X_AXES, XAxis, learning_panels, replay_panels, time_axis
from run_files.run_reader import RunReader
from tests.dashboard.some_runs import write_run

STEPS, FRAME = X_AXES["steps"], Frame("agent steps")


def data_of(folder: Path, root: Path | None = None) -> RunReader:
    data = ResultsFolder(root or folder.parent).reader(folder.resolve())
    data.refresh()
    return data


def test_a_parent_outside_of_the_results_folder_is_not_read(tmp_path: Path) -> None:
    parent = write_run(tmp_path / "outside" / "parent", reports=5)
    child = write_run(tmp_path / "results" / "child", reports=3, parent={"run": str(parent), "agent_steps": 5000})
    assert len(data_of(child).history.reports) == 3
    assert len(data_of(child, tmp_path).history.reports) == 8


@pytest.mark.parametrize(
    ("axis", "last"),
    [(STEPS, 20_000), (X_AXES["frames"], 80_000), (X_AXES["hours"], 20 / 3600), (time_axis(20), 20 / 60)],
)
def test_every_game_is_a_dot_over_each_axis(tmp_path: Path, axis: XAxis, last: float) -> None:
    history = data_of(write_run(tmp_path / "run")).history
    games, means = return_chart(history, axis, FRAME)["series"]
    assert games["type"] == "scatter" and len(games["data"]) == 30
    assert games["data"][-1] == [pytest.approx(last, rel=1e-5), 29 % 7]
    assert means["data"][-1] == [pytest.approx(last, rel=1e-5), 18.0]


def test_the_time_of_a_short_run_is_in_minutes() -> None:
    assert (time_axis(1800).label, time_axis(20_000).label) == ("minutes", "hours")


def test_figures_that_a_run_does_not_have_get_no_chart(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run")).history
    panels = {panel.title: panel for panel in learning_panels(history)}
    assert "Entropy of the policy, nats" in panels and "Norm of the gradient" not in panels
    drawn = panel_chart(panels["Terms of the loss"], history, STEPS, FRAME)["series"]
    assert [series["name"] for series in drawn] == ["policy", "value"]  # the cloning loss is always 0


def test_each_replay_has_a_line_in_the_charts_of_draws(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run")).history
    panels = {panel.title: panel for panel in replay_panels(history)}
    ages = panel_chart(panels["Age of drawn unrolls, updates"], history, STEPS, FRAME)
    assert [(line["name"], line["data"][-1][1]) for line in ages["series"]] == [
        ("queue (replay 1)", 7),
        ("elite (replay 2)", 60),
    ]
    assert ages["yAxis"]["scale"] is False, "it begins at 0"
    distances = panel_chart(panels["Distance, elite (replay 2)"], history, STEPS, FRAME)
    assert [(line["name"], line["data"][-1][1]) for line in distances["series"]] == [
        ("drawn", 1),
        ("all candidates", 2),
    ]


def test_a_logarithmic_axis_has_no_point_that_is_not_positive(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run", final_return=-18.0)).history
    chart = return_chart(history, STEPS, Frame("agent steps", log_y=True, log_x=True))
    values = [y for series in chart["series"] for _, y in series["data"]]
    assert None in values and all(y is None or y > 0 for y in values)
    assert chart["xAxis"]["type"] == chart["yAxis"]["type"] == "log"


def test_a_run_without_reports_has_empty_charts(tmp_path: Path) -> None:
    history = data_of(write_run(tmp_path / "run", reports=0, games=0, environment_max_steps=10)).history
    for axis in X_AXES.values():
        assert return_chart(history, axis, FRAME)["series"] == []
    assert learning_panels(history) == [] == replay_panels(history)
