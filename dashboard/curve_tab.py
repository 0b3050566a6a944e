"""A tab of charts that grow with the run, with a choice of the x axis and of logarithmic axes."""

from collections.abc import Callable, Sequence

from nicegui import ui

from dashboard.page_parts import ChartCard, notice
from dashboard.panels import CHOICES, Panel, panel_chart, return_chart
from run_files.run_history import History
from run_files.run_reader import RunReader


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
            self._x = ui.toggle(list(CHOICES), value="steps", on_change=self.update).props("dense unelevated")
            self._log_y = ui.checkbox("log y", on_change=self.update).props("dense")
            self._log_x = ui.checkbox("log x", on_change=self.update).props("dense")
        self._nothing = ui.column()
        self._top = ui.column().classes("w-full")
        self._grid = ui.element("div").classes("charts w-full")
        self.update()

    def update(self) -> None:
        history = self._data.history
        axes = str(self._x.value), bool(self._log_y.value), bool(self._log_x.value)
        if self._with_returns and (len(history.games.x) or history.reports):
            title = "Return of full games"
            options = return_chart(history, *axes)
            if title in self._cards:
                self._cards[title].update(options)
            else:
                with self._top:
                    self._cards[title] = ChartCard(title, options, large=True)
        panels = self._panels(history)
        for panel in panels:
            options = panel_chart(panel, history, *axes)
            if panel.title in self._cards:
                self._cards[panel.title].update(options)
            elif options["series"]:
                with self._grid:
                    self._cards[panel.title] = ChartCard(panel.title, options)
        self._nothing.clear()
        if not self._cards:
            with self._nothing:
                notice("There is no report yet; the first one comes after --report_period agent steps.")
