"""The charts of a run: which figures each shows."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nicegui")

from dashboard.chart_tabs import panel_chart
from dashboard.charts import ChartOptions, Frame, line_chart
from dashboard.results import Results
from reports.panels import X_AXES, XAxis, learning_panels, replay_panels, return_lines, time_axis
from run_files.run_reader import History
from tests.dashboard.some_runs import write_run

STEPS = X_AXES["steps"]
FRAME = Frame(STEPS)


def history_of(folder: Path) -> History:
    data = Results(folder.parent).reader(folder)
    data.refresh()
    return data.history


def return_chart(history: History, frame: Frame) -> ChartOptions:
    return line_chart("Return of full games", return_lines(history, frame.axis, frame.smooth), frame)


@pytest.mark.parametrize(
    ("axis", "last"),
    [(STEPS, 20_000), (X_AXES["frames"], 80_000), (X_AXES["hours"], 20 / 3600), (time_axis(20), 20 / 60)],
)
def test_every_game_is_a_dot_over_each_axis(tmp_path: Path, axis: XAxis, last: float) -> None:
    history = history_of(write_run(tmp_path / "run"))
    games, means = return_chart(history, Frame(axis))["series"]
    assert games["type"] == "scatter" and len(games["data"]) == 30
    assert games["data"][-1] == [pytest.approx(last, rel=1e-5), 29 % 7]
    assert means["data"][-1] == [pytest.approx(last, rel=1e-5), 18.0]


def test_the_time_of_a_short_run_is_in_minutes() -> None:
    assert (time_axis(1800).label, time_axis(20_000).label) == ("minutes", "hours")


def test_figures_that_a_run_does_not_have_get_no_chart(tmp_path: Path) -> None:
    history = history_of(write_run(tmp_path / "run"))
    panels = {panel.title: panel for panel in learning_panels(history)}
    assert "Entropy of the policy, nats" in panels and "Norm of the gradient" not in panels
    drawn = panel_chart(panels["Terms of the loss"], history, FRAME)["series"]
    assert [series["name"] for series in drawn] == ["policy", "value"]  # the cloning loss is always 0


def test_each_replay_has_a_line_in_the_charts_of_draws(tmp_path: Path) -> None:
    history = history_of(write_run(tmp_path / "run"))
    panels = {panel.title: panel for panel in replay_panels(history)}
    ages = panel_chart(panels["Age of drawn unrolls, updates"], history, FRAME)
    assert [(line["name"], line["data"][-1][1]) for line in ages["series"]] == [
        ("queue (replay 1)", 7),
        ("elite (replay 2)", 60),
    ]
    assert ages["yAxis"]["scale"] is False, "it begins at 0"
    distances = panel_chart(panels["Distance"], history, FRAME)
    assert [(line["name"], line["data"][-1][1]) for line in distances["series"]] == [
        ("elite (replay 2), drawn", 1),
        ("elite (replay 2), all candidates", 2),
    ]


def test_a_logarithmic_axis_has_no_point_that_is_not_positive(tmp_path: Path) -> None:
    history = history_of(write_run(tmp_path / "run", final_return=-18.0))
    chart = return_chart(history, Frame(STEPS, log_y=True, log_x=True))
    values = [y for series in chart["series"] for _, y in series["data"]]
    assert None in values and all(y is None or y > 0 for y in values)
    assert chart["xAxis"]["type"] == chart["yAxis"]["type"] == "log"


def test_a_run_without_reports_has_empty_charts(tmp_path: Path) -> None:
    history = history_of(write_run(tmp_path / "run", reports=0, games=0, environment_max_steps=10))
    for axis in X_AXES.values():
        assert return_chart(history, Frame(axis))["series"] == []
    assert learning_panels(history) == [] == replay_panels(history)


def test_lines_can_show_means_of_several_reports(tmp_path: Path) -> None:
    history = history_of(write_run(tmp_path / "run", final_return=20.0))
    (_, means) = return_chart(history, Frame(STEPS, smooth=10))["series"]
    assert [y for _, y in means["data"]] == pytest.approx([*(n / 2 + 0.5 for n in range(1, 11)), *np.arange(6.5, 16)])
