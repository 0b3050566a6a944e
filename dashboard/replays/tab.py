"""A tab about what the replays of a run chose, and what the ranking ones hold."""

from asyncio import to_thread
from pathlib import Path

from nicegui import ui

from dashboard.charts import scatter_chart
from dashboard.curve_tab import CurveTab
from dashboard.page_parts import ChartCard, heading
from dashboard.replays.map import NoMapError, ReplayMap, read_replay_map
from dashboard.results_folder import ResultsFolder
from reports.panels import replay_panels
from run_files.run_folder import CHECKPOINTS
from run_files.run_reader import RunReader

COLOURINGS = {  # what the page says: field of an unroll
    "age in updates": "age",
    "distance": "distance",
    "sum of rewards": "rewards",
    "times drawn": "times_drawn",
}
NO_DISTANCES = "None of these unrolls has been ranked, so no distance is known."
TITLE = "Unrolls by their features, first two principal components"


class ReplayTab:
    """The charts of the draws, and a map of the newest saved replays on demand."""

    def __init__(self, results: ResultsFolder, data: RunReader) -> None:
        self._checkpoints: Path = data.folder / CHECKPOINTS
        self._readable = results.inside(self._checkpoints)
        self._map: ReplayMap | None = None
        self._card: ChartCard | None = None
        self._curves = CurveTab(data, replay_panels)
        heading(2, "What attentive and elite replays hold")
        with ui.element("div").classes("row"):
            self._button = ui.button("Map the saved replays", on_click=self._read).props("unelevated")
            self._colouring = ui.select(list(COLOURINGS), value="age in updates", label="colour", on_change=self._draw)
            self._colouring.props("dense outlined").style("min-width: 170px")
        self._message = ui.label("One point for each unroll that the run saved with --save_replay.").classes("soft")
        self._place = ui.column().classes("w-full")

    def update(self) -> None:
        self._curves.update()

    async def _read(self) -> None:
        if not self._readable:
            return
        self._button.disable()
        self._message.set_text("Reading the saved replays …")
        try:
            self._map = await to_thread(read_replay_map, self._checkpoints)
        except NoMapError as error:
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

    def _draw(self) -> None:
        if self._map is None:
            return
        label = str(self._colouring.value)
        name = COLOURINGS[label]
        groups: dict[str, list[tuple[float, float, float]]] = {}
        for replay, unrolls in self._map.replays.items():
            values = [(unroll, getattr(unroll, name)) for unroll in unrolls]
            groups[replay] = [(unroll.first, unroll.second, value) for unroll, value in values if value is not None]
        if not any(groups.values()):
            ui.notify(NO_DISTANCES)
        options = scatter_chart(groups, label)
        if self._card is None:
            with self._place:
                self._card = ChartCard(TITLE, options, large=True)
        else:
            self._card.update(options)
