"""The page of one run: its state, and tabs with curves, machine, replays, configuration, console, files and agent."""

import time
from asyncio import to_thread
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicegui import ui
from starlette.requests import Request

from dashboard.agent_tab import AgentTab
from dashboard.chart_tabs import CurveTab, ReplayTab
from dashboard.file_tabs import ConsoleTab, FilesTab, configuration_tab
from dashboard.page_parts import Notices, fact, heading, is_open, link_to, notice, page_frame, state_class
from dashboard.results import AT_WORK, SPEED, PageError, Results, RunRow, printable
from reports.number_format import NOTHING_YET, age, count_or_nothing, duration, game_return, percent
from reports.panels import learning_panels, machine_panels, replay_panels

REFRESH_SECONDS = 2.0
FACTS = ("mean return", "best game", "agent steps", "done", "steps/s", "training time", "left", "last report")


async def run_page(results: Results, request: Request, name: str) -> None:
    with page_frame(request, name):
        if not await is_open():
            return
        try:
            folder = await to_thread(results.run, name)
        except PageError as error:
            notice(str(error))
            return
        await RunView(results, folder).build()


class RunView:
    def __init__(self, results: Results, folder: Path) -> None:
        self._results = results
        self._folder = folder
        self._data = results.reader(folder)
        self._row: RunRow | None = None

    async def build(self) -> None:
        await self._read()
        self._build_head()
        self._notices = Notices()
        self._make_tab: dict[str, Callable[[], Any]] = {
            "Curves": lambda: CurveTab(self._data, learning_panels, with_returns=True),
            "Machine": lambda: CurveTab(self._data, machine_panels),
            "Replays": lambda: ReplayTab(self._results, self._data),
            "Configuration": lambda: configuration_tab(self._data.config),
            "Console": lambda: ConsoleTab(self._results, self._folder),
            "Files": lambda: FilesTab(self._results, self._folder, self._data),
            "Agent": lambda: AgentTab(self._results, self._folder),
        }
        self._bar = ui.tabs(on_change=self._open_tab).props("dense align=left no-caps outside-arrows mobile-arrows")
        self._panels = ui.tab_panels(self._bar, animated=False).classes("w-full")
        self._places: dict[str, ui.column] = {}
        self._opened: dict[str, Any] = {}  # the tabs that have been open
        self._show()
        self._bar.set_value("Curves")
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _read(self) -> bool:
        changed = await to_thread(self._data.refresh)
        row = await to_thread(self._results.row, self._results.name(self._folder)) or self._row
        changed |= row != self._row
        self._row = row
        return changed

    async def _refresh(self) -> None:
        if await self._read():
            self._show()
            self._open_tab()
        elif self._bar.value in ("Console", "Files"):
            self._open_tab()

    def _open_tab(self) -> None:
        """Build the content of the open tab when it is opened first; bring it up to date later."""
        label = str(self._bar.value)
        if label != "Agent" and "Agent" in self._opened:
            self._opened["Agent"].pause()
        if label not in self._opened:
            with self._places[label]:
                self._opened[label] = self._make_tab[label]()
        elif hasattr(self._opened[label], "update"):
            self._opened[label].update()

    def _build_head(self) -> None:
        row = self._row
        with ui.element("div").classes("row"):
            heading(1, row.game if row and row.game else printable(Path(self._folder.name)))
            self._state = ui.label()
            if row and row.sweep:
                name = "this folder" if row.sweep == "." else f"sweep {row.sweep}"
                ui.link(name, link_to("sweep", row.sweep)).classes("plain")
        with ui.element("section").classes("card facts"):
            self._facts = {name: fact(name, NOTHING_YET) for name in FACTS}
        self._why = ui.label().classes("soft")

    def _show(self) -> None:
        for place, label in enumerate(self._make_tab):
            # That of the replays comes with the first report of them.
            if label not in self._places and (label != "Replays" or replay_panels(self._data.history)):
                with self._bar:
                    ui.tab(label).move(target_index=place)
                with self._panels, ui.tab_panel(label):
                    self._places[label] = ui.column().classes("w-full gap-4")
        self._notices.show(self._data.problems)
        row = self._row
        if row is None:
            return
        self._state.set_text(row.state)
        self._state.classes(replace=state_class(row.state))
        self._why.set_text(row.why)
        self._why.set_visibility(bool(row.why))
        figures = row.figures.get
        values = (
            game_return(row.return_mean),
            game_return(figures("return_max")),
            count_or_nothing(row.agent_steps),
            percent(row.share_done),
            count_or_nothing(figures(SPEED)),
            duration(figures("seconds")),
            row.time_left if row.state == AT_WORK else NOTHING_YET,
            age(row.written, time.time()),
        )
        for name, value in zip(FACTS, values, strict=True):
            self._facts[name].set_text(value)
