"""Tabs of charts that grow with the run. That of the replays also has a map of what they hold."""

from asyncio import to_thread
from collections.abc import Callable, Sequence
from functools import partial

from nicegui import ui

from dashboard.charts import ChartOptions, Frame, line_chart, scatter_chart
from dashboard.children import PageChild, ReplayMap
from dashboard.page_parts import ChartCard, heading, notices, show_notices
from dashboard.results import PageError, Results
from processes.child import Call
from reports.panels import X_AXES, Panel, replay_panels, return_lines, time_axis
from run_files.run_folder import CHECKPOINTS
from run_files.run_history import History
from run_files.run_reader import RunReader

RETURNS = "Return of full games"
MOST_FOUND = 30  # charts of figures that a search finds
NO_REPORT = "There is no report yet; the first one comes after --report_period agent steps."
MAP_TITLE = "Unrolls by their features, first two principal components"
MAP_SECONDS = 300.0  # longest wait: replays can have many gigabytes
COLOURINGS = ("age in updates", "distance", "sum of rewards", "times drawn")


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
        longest = max((run.reports[-1].get("seconds", 0.0) for run in histories if run.reports), default=0.0)
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


class ReplayTab:
    """The charts of the draws, and a map of the newest saved replays on demand."""

    def __init__(self, results: Results, data: RunReader) -> None:
        self._results = results
        self._checkpoints = data.folder / CHECKPOINTS
        self._map: ReplayMap | None = None
        self.update = CurveTab(data, replay_panels).update
        heading(2, "What attentive and elite replays hold")
        with ui.element("div").classes("row"):
            self._button = ui.button("Map the saved replays", on_click=self._read).props("unelevated")
            self._colouring = ui.select(list(COLOURINGS), value=COLOURINGS[0], label="colour", on_change=self._draw)
            self._colouring.props("dense outlined").style("min-width: 170px")
        self._message = ui.label("One point for each unroll that the run saved with --save_replay.").classes("soft")
        self._place = ui.column().classes("w-full")

    async def _read(self) -> None:
        self._button.disable()
        self._message.set_text("Reading the saved replays …")
        try:
            self._map = await to_thread(self._mapped)
        except PageError as error:
            self._message.set_text(str(error))
            return
        finally:
            self._button.enable()
        first, second = self._map.explained
        self._message.set_text(
            f"Replays of update {self._map.updates:,}. The components explain {first:.0%} and {second:.0%} of the "
            "variance. Features are those of the policies that played."
        )
        self._draw()

    def _mapped(self) -> ReplayMap:
        if not self._results.inside(self._checkpoints):
            raise PageError("The checkpoints of this run are elsewhere.")
        child = PageChild(Call("dashboard.replay_map", "send_map", (self._checkpoints,)), "replay map")
        try:
            found = child.ask(MAP_SECONDS)
            assert isinstance(found, ReplayMap)
            return found
        finally:
            child.close()

    def _draw(self) -> None:
        if self._map is None:
            return
        label = str(self._colouring.value)
        groups = {
            replay: [each for each in zip(of["x"], of["y"], of[label], strict=True) if each[2] is not None]
            for replay, of in self._map.replays.items()
        }
        if not any(groups.values()):
            ui.notify("None of these unrolls has been ranked, so no distance is known.")
        self._place.clear()
        with self._place:
            ChartCard(scatter_chart(MAP_TITLE, groups, label), large=True)


def panel_chart(panel: Panel, history: History, frame: Frame) -> ChartOptions:
    return line_chart(panel.title, panel.lines(partial(frame.curve, history)), frame, panel)
