"""Tabs of charts that grow with the run, and the controls above charts."""

from collections.abc import Callable, Sequence
from functools import partial

from nicegui import ui

from dashboard.charts import ChartOptions, Frame, line_chart
from dashboard.page_parts import ChartCard, notices, show_notices
from reports.panels import X_AXES, Panel, return_lines, time_axis
from run_files.run_reader import History, RunReader

RETURNS = "Return of full games"
MOST_FOUND = 30  # charts of figures that a search finds
NO_REPORT = "There is no report yet; the first one comes after --report_period agent steps."


class AxisChoice:
    """The controls above charts: what x is, which axes are logarithmic, and how smooth lines are."""

    def __init__(self, on_change: Callable[[], object]) -> None:
        self._x = ui.toggle(["steps", "frames", "time"], value="steps", on_change=on_change).props("dense unelevated")
        self._log_y = ui.checkbox("log y", on_change=on_change).props("dense")
        self._log_x = ui.checkbox("log x", on_change=on_change).props("dense")
        smoothing = {1: "none", **{count: f"{count} reports" for count in (3, 10, 30, 100)}}
        self._smooth = ui.select(smoothing, value=1, label="smoothing", on_change=on_change)
        self._smooth.props("dense outlined").style("min-width: 130px")

    def frame(self, *histories: History) -> Frame:
        """The frame of charts of these runs."""
        longest = max((run.last.get("seconds", 0.0) for run in histories), default=0.0)
        axis = time_axis(longest) if self._x.value == "time" else X_AXES[str(self._x.value)]
        return Frame(axis, bool(self._log_x.value), bool(self._log_y.value), int(self._smooth.value))


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
            self._search = ui.input(placeholder="search all figures", on_change=self.update)
            self._search.props('dense outlined clearable debounce=300 aria-label="search all figures"')
        self._nothing = notices()
        self._top = ui.column().classes("w-full")
        self._grid = ui.element("div").classes("charts w-full")
        self.update()

    def update(self) -> None:
        history = self._data.history
        frame = self._axes.frame(history)
        if self._with_returns:
            lines = return_lines(history, frame.axis, frame.smooth)
            self._put(RETURNS, line_chart(RETURNS, lines, frame), self._top)
        text, panels = str(self._search.value or "").strip().lower(), list(self._panels(history))
        if text:
            panels = [panel for panel in panels if text in panel.title.lower()]
            panels += [Panel(name, ((name, ""),)) for name in history.names() if text in name.lower()][:MOST_FOUND]
        for panel in panels:
            self._put(panel.title, panel_chart(panel, history, frame), self._grid)
        shown = {panel.title for panel in panels}
        for title, card in self._cards.items():
            card.set_visibility(title in shown or (title == RETURNS and not text))
        show_notices(self._nothing, [] if self._cards else [NO_REPORT])

    def _put(self, title: str, options: ChartOptions, place: ui.element) -> None:
        if title in self._cards:
            self._cards[title].show(options)
        elif options["series"]:
            with place:
                self._cards[title] = ChartCard(options, large=place is self._top)


def panel_chart(panel: Panel, history: History, frame: Frame) -> ChartOptions:
    return line_chart(panel.title, panel.lines(partial(frame.curve, history)), frame, panel)
