"""The first page: all runs and sweeps, sorted, filtered and searched."""

import time
from asyncio import to_thread
from typing import Any
from urllib.parse import quote

from nicegui import ui
from starlette.requests import Request

from dashboard.page_parts import Notices, heading, is_open, link_to, page_frame, state_class
from dashboard.results_folder import ResultsFolder, printable
from dashboard.run_list import AT_WORK, STATES, RunList, RunRow, SweepRow
from reports.number_format import age, count_or_nothing, game_return

REFRESH_SECONDS = 3.0
ROWS_AT_ONCE = 50
ALL = "all"
MOST_COMPARED = 60


def _column(name: str, label: str, *, left: bool = False, wide: bool = False, **more: Any) -> dict[str, Any]:
    """A column; a `wide` one is left out on narrow screens."""
    hidden = "wide" if wide else ""
    return {
        "name": name, "label": label, "field": name, "sortable": True, "align": "left" if left else "right",
        "classes": f"cell-{name} {hidden}", "headerClasses": hidden, **more,
    }  # fmt: skip


COLUMNS = [
    _column("name", "run", left=True),
    _column("state", "state", left=True),
    _column("game", "game", left=True, wide=True),
    _column("steps", "steps", wide=True),
    _column("done", "done", wide=True),
    _column("return", "mean return"),
    _column("best", "best game", wide=True),
    _column("speed", "steps/s", wide=True),
    _column("age", "last report", wide=True),
]
# Cells show the text of a number, and are sorted by the number.
TEXT_CELL = '<q-td :props="props">{{ props.row[props.col.name + "_text"] }}</q-td>'
NAME_CELL = '<q-td :props="props"><a :href="props.row.link" :title="props.row.name">{{ props.row.name }}</a></q-td>'
STATE_CELL = (
    '<q-td :props="props"><span :class="props.row.state_class" :title="props.row.why">'
    "{{ props.row.state }}</span></q-td>"
)


def list_page(results: ResultsFolder, run_list: RunList) -> Any:
    """The function that builds the page for each visitor."""

    async def build(request: Request) -> None:
        with page_frame(request, f"runs in {printable(results.root)}"):
            if await is_open():
                await _Listing(run_list).build()

    return build


class _Listing:
    def __init__(self, run_list: RunList) -> None:
        self._run_list = run_list
        self._rows: list[RunRow] = []
        self._sweeps: list[SweepRow] = []
        self._shown: list[dict[str, Any]] = []

    async def build(self) -> None:
        await self._read()
        self._notices = Notices()
        self._sweep_place = ui.column().classes("w-full gap-2")
        heading(1, "Runs")
        with ui.element("div").classes("row"):
            self._search = ui.input(placeholder="search").props('dense outlined clearable aria-label="search"')
            self._state = ui.select([ALL, *STATES], value=ALL, label="state", on_change=self._show)
            self._game = ui.select([ALL], value=ALL, label="game", on_change=self._show)
            for choice in (self._state, self._game):
                choice.props("dense outlined").style("min-width: 130px")
            self._compare = ui.button("Compare", on_click=self._open_comparison).props("unelevated no-caps")
            self._count = ui.label().classes("soft")
        pagination = {"rowsPerPage": ROWS_AT_ONCE, "sortBy": "age", "descending": False}
        self._table = ui.table(
            rows=[], columns=COLUMNS, row_key="name", selection="multiple", pagination=pagination,
            on_select=self._show_selection,
        ).classes("w-full")  # fmt: skip
        self._table.props('flat dense binary-state-sort no-data-label="no runs yet: python main.py --op_mode=train"')
        self._table.props(':rows-per-page-options="[25, 50, 100, 500]"')
        self._table.bind_filter_from(self._search, "value", lambda text: text or "")
        for name in ("steps", "done", "return", "best", "speed", "age"):
            self._table.add_slot(f"body-cell-{name}", TEXT_CELL)
        self._table.add_slot("body-cell-name", NAME_CELL)
        self._table.add_slot("body-cell-state", STATE_CELL)
        self._show()
        self._show_selection()
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _read(self) -> None:
        self._rows, self._sweeps = await to_thread(self._run_list.read)

    async def _refresh(self) -> None:
        await self._read()
        self._show()

    def _show(self) -> None:
        games = [ALL, *sorted({row.game for row in self._rows if row.game})]
        if games != self._game.options:
            self._game.set_options(games, value=self._game.value if self._game.value in games else ALL)
        rows = [row for row in self._rows if self._state.value in (ALL, row.state)]
        rows = [row for row in rows if self._game.value in (ALL, row.game)]
        now = time.time()
        shown = [_as_table_row(row, now) for row in rows]
        if shown != self._shown:  # nothing is sent to the browser otherwise
            self._shown = shown
            self._table.update_rows(shown, clear_selection=False)
            at_work = sum(row.state == AT_WORK for row in self._rows)
            self._count.set_text(f"{len(shown):,} of {len(self._rows):,} runs, {at_work} at work")
            self._show_sweeps()
        self._notices.show(sweep.problem for sweep in self._sweeps if sweep.problem)

    def _show_sweeps(self) -> None:
        self._sweep_place.clear()
        if not self._sweeps:
            return
        with self._sweep_place:
            heading(2, "Sweeps")
            with ui.element("div").classes("charts"):
                for sweep in self._sweeps:
                    with ui.element("section").classes("card"):
                        ui.link(
                            sweep.name if sweep.name != "." else "this folder", link_to("sweep", sweep.name)
                        ).classes("plain card-title")
                        ui.label(sweep.counts or "no runs").classes("soft")

    def _show_selection(self) -> None:
        chosen = len(self._table.selected)
        self._compare.set_text(f"Compare {chosen} runs" if chosen > 1 else "Compare")
        self._compare.set_enabled(chosen > 1)

    def _open_comparison(self) -> None:
        names = [str(row["name"]) for row in self._table.selected]
        if len(names) > MOST_COMPARED:
            ui.notify(f"{len(names)} runs are too many for one chart; at most {MOST_COMPARED} would be right.")
            return
        ui.navigate.to(comparison_link(names))


def comparison_link(names: list[str]) -> str:
    return "/compare?" + "&".join(f"run={quote(name)}" for name in names)


def _as_table_row(row: RunRow, now: float) -> dict[str, Any]:
    steps, mean, best, speed = row.agent_steps, row.return_mean, row.return_max, row.steps_per_second
    speed = speed if row.state == AT_WORK else None
    return {
        "name": row.name,
        "link": link_to("run", row.name),
        "state": row.state,
        "state_class": state_class(row.state),
        "why": row.why,
        "game": row.game,
        "sweep": row.sweep,
        "steps": steps,
        "steps_text": count_or_nothing(steps),
        "done": (steps or 0) / (row.max_steps or 1),
        "done_text": row.progress,
        "return": mean,
        "return_text": game_return(mean),
        "best": best,
        "best_text": game_return(best),
        "speed": speed,
        "speed_text": count_or_nothing(speed),
        "age": -row.written,  # ascending: the newest first
        "age_text": age(row.written, now),
    }
