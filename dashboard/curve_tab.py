"""A tab of charts that grow with the run, with a choice of the x axis and of logarithmic axes."""

from collections.abc import Callable, Sequence

import numpy as np
from nicegui import ui

from dashboard.charts import ChartOptions, Frame, Line, line_chart
from dashboard.page_parts import ChartCard, notice
from reports.panels import GAMES, MEAN, TESTED, X_AXES, Panel, XAxis, time_axis
from run_files.run_history import Curve, History
from run_files.run_reader import RunReader

CHOICES = ("steps", "frames", "time")  # of the x axis
RETURNS = "Return of full games"


class AxisChoice:
    """The controls above charts: what x is, and which axes are logarithmic."""

    def __init__(self, on_change: Callable[[], object]) -> None:
        self._x = ui.toggle(list(CHOICES), value="steps", on_change=on_change).props("dense unelevated")
        self._log_y = ui.checkbox("log y", on_change=on_change).props("dense")
        self._log_x = ui.checkbox("log x", on_change=on_change).props("dense")

    def frame(self, seconds: float) -> tuple[XAxis, Frame]:
        """The x axis and the frame of charts of runs that have taken so long, at most."""
        axis = time_axis(seconds) if self._x.value == "time" else X_AXES[str(self._x.value)]
        return axis, Frame(axis.label, log_y=bool(self._log_y.value), log_x=bool(self._log_x.value))


class CurveTab:
    """`panels` says which charts a history has; new ones appear as their figures do."""

    def __init__(
        self, data: RunReader, panels: Callable[[History], Sequence[Panel]], *, with_returns: bool = False
    ) -> None:
        self._data = data
        self._panels = panels
        self._with_returns = with_returns
        self._cards: dict[str, ChartCard] = {}
        with ui.element("div").classes("row"):
            self._axes = AxisChoice(self.update)
        self._nothing = ui.column()
        self._top = ui.column().classes("w-full")
        self._grid = ui.element("div").classes("charts w-full")
        self.update()

    def update(self) -> None:
        history = self._data.history
        axis, frame = self._axes.frame(seconds_of(history))
        if self._with_returns and (len(history.games.x) or history.reports):
            self._put(RETURNS, return_chart(history, axis, frame), self._top, large=True)
        for panel in self._panels(history):
            self._put(panel.title, panel_chart(panel, history, axis, frame), self._grid)
        self._nothing.clear()
        if not self._cards:
            with self._nothing:
                notice("There is no report yet; the first one comes after --report_period agent steps.")

    def _put(self, title: str, options: ChartOptions, place: ui.element, *, large: bool = False) -> None:
        if title in self._cards:
            self._cards[title].update(options)
        elif options["series"] or large:
            with place:
                self._cards[title] = ChartCard(title, options, large=large)


def seconds_of(history: History) -> float:
    """The training time at the last report."""
    return history.reports[-1].get("seconds", 0.0) if history.reports else 0.0


def panel_chart(panel: Panel, history: History, axis: XAxis, frame: Frame) -> ChartOptions:
    """The options of the chart of one panel."""
    lines = [
        Line(label, curve.x / axis.unit, curve.y, colour) for label, curve, colour in panel.curves(history, axis.figure)
    ]
    return line_chart(lines, frame.of(panel))


def return_chart(history: History, axis: XAxis, frame: Frame) -> ChartOptions:
    """Every game as a dot, the moving mean as a line, and the evaluations."""
    games = _games_over(history, axis)
    means = history.curve("return_mean", axis.figure)
    tested = history.curve("eval_return_mean", axis.figure)
    lines = [
        Line("each game", games.x / axis.unit, games.y, GAMES, dots=True),
        Line(f"mean of the last {history.return_window} games", means.x / axis.unit, means.y, MEAN),
        Line("test games, mean", tested.x / axis.unit, tested.y, TESTED),
    ]
    return line_chart([line for line in lines if len(line.x)], frame)


def _games_over(history: History, axis: XAxis) -> Curve:
    """Games have only agent steps; other units are interpolated between the reports."""
    steps = history.curve(axis.figure, "agent_steps")
    if axis.figure == "agent_steps" or not len(steps.x):
        return history.games
    order = np.argsort(steps.x, kind="stable")
    xs = np.interp(history.games.x, steps.x[order], steps.y[order], left=np.nan, right=np.nan)
    before = history.games.x < steps.x[order][0]  # games that ended before the first report
    xs[before] = history.games.x[before] * (steps.y[order][0] / max(1.0, steps.x[order][0]))
    known = ~np.isnan(xs)
    return Curve(xs[known], history.games.y[known])
