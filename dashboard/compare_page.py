"""Pages that compare runs: any selection, and all runs of a sweep."""

import threading
from asyncio import to_thread
from collections.abc import Sequence
from pathlib import Path

from nicegui import ui
from starlette.requests import Request

from dashboard.chart_tabs import AxisChoice
from dashboard.comparison import (
    RETURN,
    comparison_chart,
    figures_of,
    group_rows,
    runs_of_sweep,
    score_rows,
    search_chart,
)
from dashboard.page_parts import ChartCard, Notices, heading, is_open, link_to, notice, page_frame, table
from dashboard.results import UNREADABLE, PageError, Results, RunRow, printable
from reports.compare_runs import Group
from reports.number_format import game_return
from reports.panels import X_AXES
from reports.scores import game_name
from run_files.run_reader import ReadLimits, RunReader

REFRESH_SECONDS = 5.0
MOST_CURVES = 60  # runs whose curves are read; the others are in the table only
EACH = ReadLimits(reports=400, report_bytes=4 * 1024 * 1024)


async def compare_page(results: Results, request: Request) -> None:
    names = list(dict.fromkeys(request.query_params.getlist("run")))
    with page_frame(request, f"{len(names)} runs compared"):
        heading(1, "Comparison")
        if await is_open():
            await ComparisonView(results, names).build()


async def sweep_page(results: Results, request: Request, name: str) -> None:
    with page_frame(request, f"sweep {name}"):
        if not await is_open():
            return
        try:
            folder = await to_thread(results.sweep, name)
        except PageError as error:
            notice(str(error))
            return
        heading(1, printable(Path(folder.name)))
        await ComparisonView(results, sweep=results.name(folder)).build()


class ComparisonView:
    """Charts and tables of the runs with these `names`, or of all runs of a `sweep`."""

    def __init__(self, results: Results, names: Sequence[str] = (), sweep: str | None = None) -> None:
        self._results = results
        self._names = names
        self._sweep = sweep
        self._rows: list[RunRow] = []
        self._groups: list[Group] = []  # of the rows, without curves
        self._readers: dict[Path, RunReader] = {}  # of one figure: all would take much memory
        self._read_figure = ""
        self._reading = threading.Lock()
        self._cards: dict[str, ChartCard] = {}

    async def build(self) -> None:
        self._notices = Notices()
        self._status = ui.label().classes("soft")
        with ui.element("div").classes("row"):
            self._metric = ui.select([RETURN], value=RETURN, label="figure", with_input=True, on_change=self._draw)
            self._metric.props("dense outlined").style("min-width: 260px").on("popup-show", self._offer_figures)
            self._axes = AxisChoice(self._draw)
        self._grid = ui.element("div").classes("charts broad w-full")
        self._tables = ui.column().classes("w-full gap-3")
        await self._refresh()
        await self._offer_figures()
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _refresh(self) -> None:
        rows, problems, status = await to_thread(self._look)
        self._notices.show(problems)
        self._status.set_text(status)
        if rows != self._rows:
            self._rows, self._groups = rows, await to_thread(group_rows, rows)
            self._show_tables()
        await self._draw(only_if_new=True)

    def _look(self) -> tuple[list[RunRow], list[str], str]:
        """The runs, what is wrong with the choice of them, and a line about them."""
        rows, sweeps = self._results.rows()
        rows = [row for row in rows if row.state != UNREADABLE]
        if self._sweep is not None:
            own = runs_of_sweep([row for row in rows if row.sweep == self._sweep])
            sweep = [each for each in sweeps if each.name == self._sweep]
            status = [each.counts for each in sweep]
            if len(own) > MOST_CURVES:
                status.append(f"the curves are those of the {MOST_CURVES} runs with the highest mean return")
            return own, [each.problem for each in sweep if each.problem], ", ".join(filter(None, status))
        known = {row.name: row for row in rows}
        missing = [name for name in self._names if name not in known]
        own = [known[name] for name in self._names if name in known]
        return own, [f"{name} is left out: it is not there, or is not a run." for name in missing], ""

    async def _offer_figures(self) -> None:
        figures = await to_thread(figures_of, self._rows[:MOST_CURVES])
        if figures != self._metric.options:
            self._metric.set_options(figures)

    def _with_curves(self, metric: str) -> tuple[list[Group], bool]:
        """The groups with their curves of a figure, and whether anything is new."""
        best = {row.folder: row.return_mean if row.return_mean is not None else float("-inf") for row in self._rows}
        folders = [run.folder for group in self._groups for run in group.runs]
        names = {metric, *(axis.figure for axis in X_AXES.values())}
        with self._reading:
            changed = metric != self._read_figure
            if changed:
                self._read_figure, self._readers = metric, {}
            for folder in sorted(folders, key=lambda folder: -best[folder])[:MOST_CURVES]:
                reader = self._readers.setdefault(folder, self._results.reader(folder, names, EACH))
                changed |= reader.refresh()
            read = {folder: reader.history for folder, reader in self._readers.items()}
        groups = [group._replace(runs=tuple(read[run.folder] for run in group.runs if run.folder in read))
                  for group in self._groups]  # fmt: skip
        return [group for group in groups if group.runs], changed

    async def _draw(self, *_: object, only_if_new: bool = False) -> None:
        metric = str(self._metric.value or RETURN)
        groups, changed = await to_thread(self._with_curves, metric)
        if metric != str(self._metric.value or RETURN):  # meanwhile; that figure is drawn too
            return
        if not changed and only_if_new:
            return
        what = "mean return" if metric == RETURN else metric
        frame = self._axes.frame(*(run for group in groups for run in group.runs))
        charts = {
            f"{game_name(env)}, {what}": comparison_chart(
                [group for group in groups if group.env == env], metric, frame
            )
            for env in dict.fromkeys(group.env for group in groups)
        }
        if charts.keys() != self._cards.keys() or not charts:
            self._grid.clear()
            with self._grid:
                self._cards = {title: ChartCard(title, options, large=True) for title, options in charts.items()}
                if not charts:
                    notice("There is nothing to compare yet.")
            return
        for title, options in charts.items():
            self._cards[title].update(options)

    def _show_tables(self) -> None:
        self._tables.clear()
        last = {run.folder for group in self._groups for run in group.runs}
        search = search_chart([row for row in self._rows if row.folder in last])
        scores = score_rows(self._groups, self._rows)
        with self._tables:
            if search is not None:
                ChartCard("Options and mean return of each run", search, large=True)
            if scores:
                heading(2, "Configurations, the best first")
                wide = ("lowest to highest", "best game", "steps")
                table(scores, left=("game", "configuration"), wide=wide).props("wrap-cells")
                heading(2, "Runs")
                with ui.element("div").classes("card w-full"):
                    for row in sorted(self._rows, key=lambda row: row.name):
                        with ui.element("div").classes("option"):
                            ui.link(row.name, link_to("run", row.name)).classes("plain")
                            ui.label(f"{row.state}, {game_return(row.return_mean)}").classes("of")
