"""Pages that compare runs: any selection, and all runs of a sweep."""

import threading
from asyncio import to_thread
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nicegui import ui
from starlette.requests import Request

from dashboard.charts import ChartOptions, label_height
from dashboard.comparison import (
    Score,
    comparison_chart,
    score_groups,
    search_chart,
    without_abandoned,
    without_curves,
)
from dashboard.curve_tab import AxisChoice, seconds_of
from dashboard.page_parts import ChartCard, Notices, heading, is_open, link_to, notice, page_frame
from dashboard.results_folder import NotThereError, ResultsFolder, printable
from dashboard.run_list import RunList, RunRow, SweepRow
from reports.compare_runs import Group, group_runs
from reports.number_format import count_or_nothing, game_return
from reports.panels import X_AXES
from reports.published_scores import game_name
from run_files.run_history import History
from run_files.run_reader import ReadLimits, RunReader

REFRESH_SECONDS = 5.0
MOST_CURVES = 60  # runs whose curves are read; the others are in the table only
EACH = ReadLimits(reports=400, report_bytes=4 * 1024 * 1024)
SOME = ReadLimits(reports=50, report_bytes=256 * 1024, game_bytes=8 * 1024 * 1024)  # to see which figures there are
RETURN = "return_mean"


def compare_page(results: ResultsFolder, run_list: RunList) -> Any:
    async def build(request: Request) -> None:
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        with page_frame(request, f"{len(names)} runs compared"):
            heading(1, "Comparison")
            if await is_open():
                await _Comparison(results, run_list, names=names).build()

    return build


def sweep_page(results: ResultsFolder, run_list: RunList) -> Any:
    async def build(request: Request, name: str) -> None:
        with page_frame(request, f"sweep {name}"):
            if not await is_open():
                return
            try:
                folder = await to_thread(results.sweep, name)
            except NotThereError as error:
                notice(str(error))
                return
            name = results.name(folder)
            heading(1, printable(Path(folder.name)))
            await _Comparison(results, run_list, sweep=name).build()

    return build


class _Comparison:
    """Charts and tables of the runs with these `names`, or of all runs of a `sweep`."""

    def __init__(
        self, results: ResultsFolder, run_list: RunList, *, names: Sequence[str] = (), sweep: str | None = None
    ) -> None:
        self._results = results
        self._run_list = run_list
        self._names = names
        self._sweep = sweep
        self._rows: list[RunRow] = []
        self._groups: list[Group] = []  # of the rows, without curves
        self._sweep_row: SweepRow | None = None
        self._data: dict[str, RunReader] = {}  # by name of the run, with one figure: all would take much memory
        self._figure = RETURN
        self._example: RunReader | None = None  # a run that has reports
        self._figures: set[str] = set()  # that it has had so far
        self._reading = threading.Lock()
        self._problems: list[str] = []
        self._cards: dict[str, ChartCard] = {}
        self._tables: object = None

    async def build(self) -> None:
        self._notices = Notices()
        await self._read_rows()
        self._status = ui.label().classes("soft")
        with ui.element("div").classes("row"):
            figures = await to_thread(self._read_figures)
            self._metric = ui.select(figures, value=RETURN, label="figure", with_input=True, on_change=self._draw)
            self._metric.props("dense outlined").style("min-width: 260px")
            self._axes = AxisChoice(self._draw)
        self._grid = ui.element("div").classes("charts broad w-full")
        self._table_place = ui.column().classes("w-full gap-3")
        await self._draw()
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _refresh(self) -> None:
        await self._read_rows()
        await self._offer_figures()
        await self._draw(only_if_new=True)

    async def _read_rows(self) -> None:
        rows, sweeps = await to_thread(self._run_list.read)
        if self._sweep is not None:
            of_sweep = [row for row in rows if row.sweep == self._sweep and row.options is not None]
            own = await to_thread(without_abandoned, of_sweep)
            self._sweep_row = next((sweep for sweep in sweeps if sweep.name == self._sweep), None)
            self._problems = [self._sweep_row.problem] if self._sweep_row and self._sweep_row.problem else []
        else:
            known = {row.name: row for row in rows if row.options is not None}
            own = [known[name] for name in self._names if name in known]
            self._problems = [
                f"{name} is left out: it is not there, or is not a run." for name in self._names if name not in known
            ]
        if own != self._rows:
            groups = await to_thread(without_curves, own)
            self._rows, self._groups = own, groups

    @property
    def _last_rows(self) -> list[RunRow]:
        """The rows without those of parents: the whole curve of such a run is part of another one."""
        last = {run.folder for group in self._groups for run in group.runs}
        return [row for row in self._rows if row.folder in last]

    def _read_figures(self) -> list[str]:
        """The figures of the reports of the first run that has any."""
        if self._example is not None:
            self._example.refresh()
        if self._example is None or not self._example.history.reports:
            self._example = self._first_with_reports()
        if self._example is not None:
            self._figures.update(self._example.history.names())
        return [RETURN, *sorted(self._figures - {RETURN})]

    def _first_with_reports(self) -> RunReader | None:
        for row in self._rows:
            data = self._results.reader(row.folder, limits=SOME)
            data.refresh()
            if data.history.reports:
                return data
        return None

    async def _offer_figures(self) -> None:
        """Offer the figures that have come since. An open list stays, because a click tells only a place in it."""
        figures = await to_thread(self._read_figures)
        if figures != self._metric.options and not self._metric.is_showing_popup:
            self._metric.set_options(figures)

    def _curve_rows(self) -> list[RunRow]:
        rows = self._last_rows
        best = sorted(rows, key=lambda row: -(row.return_mean if row.return_mean is not None else float("-inf")))
        kept = {row.name for row in best[:MOST_CURVES]}
        return [row for row in rows if row.name in kept]

    def _histories(self, metric: str) -> tuple[list[History], bool]:
        """The runs with the reports of one figure, and whether anything is new."""
        names = {metric, *(axis.figure for axis in X_AXES.values())}
        changed, histories = False, []
        with self._reading:
            if metric != self._figure:
                self._figure, self._data = metric, {}
            for row in self._curve_rows():
                if row.name not in self._data:
                    self._data[row.name] = self._results.reader(row.folder, names, EACH)
                changed |= self._data[row.name].refresh()
                histories.append(self._data[row.name].history)
        return [history for history in histories if history.options], changed

    @property
    def _chosen(self) -> str:
        return str(self._metric.value or RETURN)

    async def _draw(self, *_: object, only_if_new: bool = False) -> None:
        metric = self._chosen
        histories, changed = await to_thread(self._histories, metric)
        if metric != self._chosen:  # meanwhile; that figure is drawn too
            return
        self._notices.show(self._problems)
        self._show_status()
        if changed or not only_if_new:
            self._draw_charts(group_runs(histories) if histories else [], metric)
        if self._tables != self._rows:
            self._tables = list(self._rows)
            self._show_tables()

    def _show_status(self) -> None:
        parts = []
        if self._sweep_row is not None:
            parts.append(self._sweep_row.counts)
        if len(self._last_rows) > MOST_CURVES:
            parts.append(f"the curves are those of the {MOST_CURVES} runs with the highest mean return")
        self._status.set_text(", ".join(filter(None, parts)))

    def _draw_charts(self, groups: Sequence[Group], metric: str) -> None:
        for env in dict.fromkeys(group.env for group in groups):
            own = [group for group in groups if group.env == env]
            axis, frame = self._axes.frame(max(seconds_of(run) for group in own for run in group.runs))
            options = comparison_chart(own, metric, axis, frame)
            title = f"{game_name(env)}, {'mean return' if metric == RETURN else metric}"
            self._put(env, title, options)
        if not groups:
            self._grid.clear()
            self._cards.clear()
            with self._grid:
                notice("There is nothing to compare yet.")

    def _put(self, key: str, title: str, options: ChartOptions) -> None:
        more = label_height(len(options["legend"]["data"]))
        if key in self._cards:
            self._cards[key].update(options, title, more)
            return
        with self._grid:
            self._cards[key] = ChartCard(title, options, large=True, more_height=more)

    def _show_tables(self) -> None:
        self._table_place.clear()
        scores = score_groups(self._groups, self._rows)
        with self._table_place:
            search = search_chart(self._last_rows)
            if search is not None:
                ChartCard("Options and mean return of each run", search, large=True)
            if scores:
                heading(2, "Configurations, the best first")
                _score_table(scores)
                heading(2, "Runs")
                _run_links(self._rows)


def _score_table(scores: Sequence[Score]) -> None:
    columns = {
        "game": "game", "label": "configuration", "runs": "runs", "mean": "mean return", "range": "lowest to highest",
        "best": "best game", "steps": "steps",
    }  # fmt: skip
    hidden = {name: "wide" if name in ("range", "best", "steps") else "" for name in columns}
    table = ui.table(
        rows=[{"id": place, **_score_row(score)} for place, score in enumerate(scores)],
        columns=[
            {"name": name, "label": label, "field": name, "align": "left" if name in ("game", "label") else "right",
             "classes": hidden[name], "headerClasses": hidden[name]}
            for name, label in columns.items()
        ],
        pagination=25,
    )  # fmt: skip
    table.classes("w-full").props("flat dense wrap-cells")


def _score_row(score: Score) -> dict[str, str]:
    return {
        "game": score.game,
        "label": score.label,
        "runs": str(score.runs),
        "mean": game_return(score.mean),
        "range": f"{game_return(score.low)} to {game_return(score.high)}" if score.runs > 1 else "",
        "best": game_return(score.best_game),
        "steps": count_or_nothing(score.agent_steps),
    }


def _run_links(rows: Sequence[RunRow]) -> None:
    with ui.element("div").classes("card w-full"):
        for row in sorted(rows, key=lambda row: row.name):
            with ui.element("div").classes("option"):
                ui.link(row.name, link_to("run", row.name)).classes("plain")
                ui.label(f"{row.state}, {game_return(row.return_mean)}").classes("of")
