"""The first page: all runs and sweeps, sorted, filtered and searched."""

import time
from asyncio import to_thread
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import ui

from dashboard.page_parts import heading, link_to, notices, show_notices, state_class
from dashboard.results import AT_WORK, STATES, Results, RunRow, SweepRow, words_about
from reports.number_format import age

REFRESH_SECONDS = 3.0
ROWS_AT_ONCE = 50
ALL = "all"
MOST_COMPARED = 60
LEFT = ("run", "state", "game")
CELLS = {"steps": "agent_steps", "done": "done", "mean return": "return_mean", "best game": "return_max",
         "steps/s": "mean_speed", "time": "seconds"}  # fmt: skip
NARROW = ("run", "state", "mean return")  # the columns of narrow screens
COLUMNS = [
    {"name": name, "label": name, "field": "words" if name == "run" else name,  # in which a search looks
     "sortable": True, "align": "left" if name in LEFT else "right",
     "classes": f"cell-{name}" if name in NARROW else "wide", "headerClasses": "" if name in NARROW else "wide"}
    for name in ("run", "state", "game", *CELLS, "started", "last report")
]  # fmt: skip
# Cells show the text of a number, and are sorted by the number.
TEXT_CELL = '<q-td :props="props">{{ props.row.texts[props.col.name] }}</q-td>'
NAME_CELL = (
    '<q-td :props="props"><a :href="props.row.link" :title="props.row.run">{{ props.row.run }}</a>'
    '<div class="soft small about" :title="props.row.about">{{ props.row.about }}</div>'
    '<div class="soft small narrow">{{ props.row.times }}</div></q-td>'
)
STATE_CELL = (
    '<q-td :props="props"><span :class="props.row.state_class" :title="props.row.why">'
    "{{ props.row.state }}</span></q-td>"
)


class ListView:
    def __init__(self, results: Results) -> None:
        self._results = results
        self._rows: list[RunRow] = []
        self._shown: list[dict[str, Any]] = []
        self._told: list[tuple[Path, str]] = []
        self._words: dict[Path, str] = {}  # about the runs that are shown
        self._sweeps: list[SweepRow] = []

    async def build(self) -> None:
        self._notices = notices()
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
        pagination = {"rowsPerPage": ROWS_AT_ONCE, "sortBy": "last report", "descending": False}
        self._table = ui.table(
            rows=[], columns=COLUMNS, row_key="run", selection="multiple", pagination=pagination,
            on_select=self._show_selection,
        ).classes("w-full")  # fmt: skip
        self._table.props('flat dense binary-state-sort no-data-label="no runs yet: python main.py --op_mode=train"')
        self._table.props(':rows-per-page-options="[25, 50, 100, 500]"')
        self._table.bind_filter_from(self._search, "value", lambda text: text or "")
        for column in COLUMNS[3:]:
            self._table.add_slot(f"body-cell-{column['name']}", TEXT_CELL)
        self._table.add_slot("body-cell-run", NAME_CELL)
        self._table.add_slot("body-cell-state", STATE_CELL)
        self._show_selection()
        await self._refresh()
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _refresh(self) -> None:
        self._rows, sweeps = await to_thread(self._results.rows)
        await self._show()
        show_notices(self._notices, [sweep.problem for sweep in sweeps if sweep.problem])
        if sweeps != self._sweeps:
            self._sweeps = sweeps
            self._show_sweeps()

    async def _show(self) -> None:
        games = [ALL, *sorted({row.game for row in self._rows if row.game})]
        if games != self._game.options:
            self._game.set_options(games, value=self._game.value if self._game.value in games else ALL)
        state, game, now = self._state.value, self._game.value, time.time()
        rows = [row for row in self._rows if state in (ALL, row.state) and game in (ALL, row.game)]
        told = [(row.folder, row.notes) for row in rows]
        if told != self._told:  # what differs depends on which runs are shown
            self._told, self._words = told, await to_thread(words_about, rows)
        shown = [_as_table_row(row, self._words.get(row.folder, ""), now) for row in rows]
        at_work = sum(row.state == AT_WORK for row in self._rows)
        self._count.set_text(f"{len(shown):,} of {len(self._rows):,} runs, {at_work} at work")
        if shown != self._shown:  # otherwise nothing is sent to the browser
            self._shown = shown
            self._table.update_rows(shown, clear_selection=False)

    def _show_sweeps(self) -> None:
        self._sweep_place.clear()
        if not self._sweeps:
            return
        with self._sweep_place:
            heading(2, "Sweeps")
            with ui.element("div").classes("charts"):
                for sweep in self._sweeps:
                    with ui.element("section").classes("card"):
                        name = "this folder" if sweep.name == "." else sweep.name
                        ui.link(name, link_to("sweep", sweep.name)).classes("plain card-title")
                        ui.label(sweep.counts or "no runs").classes("soft")

    def _show_selection(self) -> None:
        chosen = len(self._table.selected)
        self._compare.set_text(f"Compare {chosen} runs" if chosen > 1 else "Compare")
        self._compare.set_enabled(chosen > 1)

    def _open_comparison(self) -> None:
        names = [str(row["run"]) for row in self._table.selected]
        if len(names) > MOST_COMPARED:
            ui.notify(f"{len(names)} runs are too many for one chart; at most {MOST_COMPARED} would be right.")
            return
        ui.navigate.to("/compare?" + "&".join(f"run={quote(name)}" for name in names))


def _as_table_row(row: RunRow, about: str, now: float) -> dict[str, Any]:
    return {
        "run": row.name,
        "about": about,
        "words": f"{row.name} {about} {row.options.get('tags') or ''} {row.notes[:1000]}",  # of a search
        "link": link_to("run", row.name),
        "state": row.state,
        "state_class": state_class(row.state),
        "why": row.why,
        "times": row.times,
        "game": row.game,
        **{name: row.figures.get(figure) for name, figure in CELLS.items()},
        "started": -row.started,
        "last report": -row.written,  # ascending: the newest first
        "texts": {
            **{name: row.text(figure) for name, figure in CELLS.items()},
            "started": row.begun,
            "last report": age(row.written, now),
        },
    }
