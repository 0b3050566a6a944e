"""The page of one run: its state, and tabs with curves, machine, replays, configuration, console, files and agent."""

import time
from asyncio import to_thread
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicegui import ui
from starlette.requests import Request

from dashboard.curve_tab import CurveTab
from dashboard.file_tabs import ConsoleTab, FilesTab, configuration_tab
from dashboard.live.tab import LiveTab
from dashboard.page_parts import Notices, fact, heading, is_open, link_to, notice, page_frame, state_class
from dashboard.replays.tab import ReplayTab
from dashboard.results_folder import NotThereError, ResultsFolder, printable
from dashboard.run_list import AT_WORK, RunList, RunRow
from reports.number_format import age, count_or_nothing, duration, game_return
from reports.panels import learning_panels, machine_panels, replay_panels

REFRESH_SECONDS = 2.0


def run_page(results: ResultsFolder, run_list: RunList) -> Any:
    """The function that builds the page for each visitor."""

    async def build(request: Request, name: str) -> None:
        with page_frame(request, name):
            if not await is_open():
                return
            try:
                folder = await to_thread(results.run, name)
            except NotThereError as error:
                notice(str(error))
                return
            await _RunPage(results, run_list, folder).build()

    return build


class _RunPage:
    def __init__(self, results: ResultsFolder, run_list: RunList, folder: Path) -> None:
        self._results = results
        self._run_list = run_list
        self._folder = folder
        self._name = results.name(folder)
        self._data = results.reader(folder)
        self._row: RunRow | None = None
        self._updates: dict[str, Callable[[], Any]] = {}  # what to do for the open tab when something is new

    async def build(self) -> None:
        await to_thread(self._data.refresh)
        self._row = await to_thread(self._run_list.row, self._name)
        self._build_head()
        self._notices = Notices()
        self._tabs: dict[str, Callable[[], object]] = {
            "Curves": lambda: CurveTab(self._data, learning_panels, with_returns=True),
            "Machine": lambda: CurveTab(self._data, machine_panels),
            "Replays": lambda: ReplayTab(self._results, self._data),
            "Configuration": lambda: configuration_tab(self._data.config),
            "Console": lambda: ConsoleTab(self._results, self._folder),
            "Files": lambda: FilesTab(self._results, self._folder, self._data),
            "Agent": lambda: LiveTab(self._results, self._folder),
        }
        self._bar = ui.tabs().props("dense align=left no-caps outside-arrows mobile-arrows")
        self._panels = ui.tab_panels(self._bar, value="Curves", animated=False).classes("w-full")
        self._open: dict[str, Any] = {}
        self._built: dict[str, Any] = {}
        self._add_tabs()
        self._bar.on_value_change(lambda event: self._open_tab(str(event.value)))
        self._open_tab("Curves")
        self._show()
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    def _add_tabs(self) -> None:
        """Add the tabs that are missing; that of the replays comes with the first report of them."""
        missing = [label for label in self._tabs if label not in self._open]
        if "Replays" in missing and not replay_panels(self._data.history):
            missing.remove("Replays")
        for label in missing:
            with self._bar:
                ui.tab(label).move(target_index=list(self._tabs).index(label))
            with self._panels, ui.tab_panel(label):
                self._open[label] = ui.column().classes("w-full gap-4")

    def _open_tab(self, label: str) -> None:
        """Build the content of a tab when it is opened first; bring it up to date later."""
        live = self._built.get("Agent")
        if live is not None and label != "Agent":
            live.pause()
        if label not in self._built:
            with self._open[label]:
                self._built[label] = self._tabs[label]()
        else:
            self._update_tab(label)

    def _update_tab(self, label: str) -> None:
        update = getattr(self._built.get(label), "update", None)
        if update is not None:
            update()

    async def _refresh(self) -> None:
        changed = await to_thread(self._data.refresh)
        row = await to_thread(self._run_list.row, self._name)
        if changed or row != self._row:
            self._row = row or self._row
            self._show()
            self._add_tabs()
            self._update_tab(str(self._panels.value))
        elif self._panels.value in ("Console", "Files"):
            self._update_tab(str(self._panels.value))

    def _build_head(self) -> None:
        row = self._row
        with ui.element("div").classes("row"):
            heading(1, row.game if row and row.game else printable(Path(self._folder.name)))
            self._state = ui.label()
            if row and row.sweep:
                name = "this folder" if row.sweep == "." else f"sweep {row.sweep}"
                ui.link(name, link_to("sweep", row.sweep)).classes("plain")
        with ui.element("section").classes("card facts"):
            self._facts = {
                name: fact(name, "—")
                for name in ("mean return", "best game", "agent steps", "done", "steps/s", "training time", "left",
                             "last report")
            }  # fmt: skip
        self._why = ui.label().classes("soft")

    def _show(self) -> None:
        self._notices.show(self._data.problems)
        row = self._row
        if row is None:
            return
        at_work = row.state == AT_WORK
        self._state.set_text(row.state)
        self._state.classes(replace=state_class(row.state))
        self._why.set_text(row.why)
        self._why.set_visibility(bool(row.why))
        values = {
            "mean return": game_return(row.return_mean),
            "best game": game_return(row.return_max),
            "agent steps": count_or_nothing(row.agent_steps),
            "done": row.progress,
            "steps/s": count_or_nothing(row.steps_per_second),
            "training time": duration(row.seconds),
            "left": row.time_left if at_work else "—",
            "last report": age(row.written, time.time()),
        }
        for name, value in values.items():
            self._facts[name].set_text(value)
