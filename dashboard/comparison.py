"""Pages that compare runs, any selection or all of a sweep: curves of groups of seeds, scores, and what differs."""

import math
from asyncio import to_thread
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nicegui import ui

from dashboard.chart_tabs import AxisChoice
from dashboard.charts import ChartOptions, Frame, line_chart, parallel_chart
from dashboard.page_parts import ChartCard, heading, link_to, notices, show_notices, table
from dashboard.results import UNREADABLE, Results, RunRow, words_about
from options.replay_options import REPLAY_KEYS
from reports.compare_runs import Group, configuration, group_runs, line_of, looks
from reports.number_format import count, on_page
from reports.panels import Line
from reports.scores import game_name
from run_files.run_folder import is_job, run_of_job
from run_files.run_reader import RunReader

RETURN = "return_mean"
ALIKE = "all runs alike"
SEARCH_TITLE = "Options and mean return of each run"
REFRESH_SECONDS = 5.0
MOST_RUNS = 200  # of a sweep
REPORTS_OF_ONE = 200
LONGEST_LABEL = 60
LEAST_RUNS, MOST_AXES = 3, 10  # of a chart with one axis for each option


class ComparisonView:
    """Charts and tables of the runs with these `names`, or of all runs of a `sweep`."""

    def __init__(self, results: Results, names: Sequence[str] = (), sweep: str | None = None) -> None:
        self._results = results
        self._names = names
        self._sweep = sweep
        self._rows: list[RunRow] | None = None  # None: not looked yet
        self._groups: list[Group] = []  # of the rows
        self._readers: dict[Path, RunReader] = {}
        self._cards: dict[str, ChartCard] = {}

    async def build(self) -> None:
        title = "Comparison"
        if self._sweep is not None:
            folder = await to_thread(self._results.sweep, self._sweep)
            self._sweep, title = self._results.name(folder), folder.name
        heading(1, title)
        self._notices = notices()
        self._status = ui.label().classes("soft")
        with ui.element("div").classes("row"):
            self._metric = ui.select([RETURN], value=RETURN, label="figure", with_input=True, on_change=self._draw)
            self._metric.props("dense outlined").style("min-width: 260px")
            self._axes = AxisChoice(self._draw)
            self._alone = ui.checkbox("each run alone", on_change=self._draw).props("dense")
        self._grid = ui.element("div").classes("charts broad w-full")
        self._tables = ui.column().classes("w-full gap-3")
        await self._refresh()
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _refresh(self) -> None:
        rows, problems, status = await to_thread(self._look)
        show_notices(self._notices, problems)
        self._status.set_text(status)
        if rows != self._rows:
            self._rows = rows
            await self._draw()
            self._show_tables(rows)

    def _look(self) -> tuple[list[RunRow], list[str], str]:
        """The runs, what is wrong with the choice of them, and a line about them."""
        rows, sweeps = self._results.rows()
        known = {row.name: row for row in rows if row.state != UNREADABLE}
        if self._sweep is None:
            missing = [name for name in self._names if name not in known]
            own = [known[name] for name in self._names if name in known]
            return own, [f"{name} is left out: it is not there, or is not a run." for name in missing], ""
        own = runs_of_sweep([row for row in known.values() if row.sweep == self._sweep])
        sweep = [each for each in sweeps if each.name == self._sweep]
        status = [each.counts for each in sweep]
        if len(own) > MOST_RUNS:
            own = sorted(own, key=lambda row: row.figures.get(RETURN, -math.inf))[-MOST_RUNS:]
            status.append(f"of these, the {MOST_RUNS} runs with the highest mean return")
        return own, [each.problem for each in sweep if each.problem], ", ".join(filter(None, status))

    def _read(self) -> list[Group]:
        """The groups of the runs, with their curves."""
        histories = []
        for row in self._rows or ():
            if row.folder not in self._readers:
                new = self._results.reader(row.folder, with_games=False, most_reports=REPORTS_OF_ONE)
                self._readers[row.folder] = new
            reader = self._readers[row.folder]
            reader.refresh()
            histories.append(reader.history)
        return group_runs(histories)

    async def _draw(self, *_: object) -> None:
        self._groups = groups = await to_thread(self._read)
        metric, figures = str(self._metric.value or RETURN), figures_of(groups)
        if figures != self._metric.options:
            self._metric.set_options(figures)
        if alone := bool(self._alone.value):
            groups = each_alone(groups)
        what = "mean return" if metric == RETURN else metric
        frame = self._axes.frame(*(run for group in groups for run in group.runs))
        charts, seen = {}, looks(groups)  # the same colours in all games
        for env in dict.fromkeys(group.env for group in groups):
            own = [group for group in groups if group.env == env]
            title = f"{game_name(env)}, {what}{' of each run' if alone else ''}"
            charts[title] = comparison_chart(title, own, metric, frame, seen)
        if charts.keys() != self._cards.keys() or not charts:
            self._grid.clear()
            with self._grid:
                self._cards = {title: ChartCard(options, large=True) for title, options in charts.items()}
                if not charts:
                    show_notices(notices(), ["There is nothing to compare yet."])
            return
        for title, options in charts.items():
            self._cards[title].show(options)

    def _show_tables(self, rows: Sequence[RunRow]) -> None:
        self._tables.clear()
        with self._tables:
            if (search := search_chart(self._groups, self._results)) is not None:
                ChartCard(search, large=True)
            if not rows:
                return
            heading(2, "Configurations, the best first")
            wide = ("lowest to highest", "best game", "steps")
            table(score_rows(self._groups), left=("game", "configuration"), wide=wide).props("wrap-cells")
            heading(2, "Runs")
            words = words_about(rows)
            runs = [
                {"run": row.name, "link": link_to("run", row.name), "about": words.get(row.folder, ""),
                 "state": row.state, "mean return": row.text("return_mean"), "time": row.times}
                for row in sorted(rows, key=lambda row: row.name)
            ]  # fmt: skip
            table(runs, left=("run", "about", "state"), wide=("time",)).props("wrap-cells")


def runs_of_sweep(rows: Sequence[RunRow]) -> list[RunRow]:
    """One run for each job. A job has more if it was started again: their curves are part of its last run's.

    A start that was killed before its first checkpoint is part of none.
    """
    starts = Counter(row.folder.parent for row in rows)
    again = {job: run_of_job(job) for job, count in starts.items() if count > 1 and is_job(job)}
    return [row for row in rows if again.get(row.folder.parent, row.folder) == row.folder]


def figures_of(groups: Sequence[Group]) -> list[str]:
    names = {name for group in groups for run in group.runs for name in run.names()}
    return [RETURN, *sorted(names - {RETURN})]


def score_rows(groups: Sequence[Group]) -> list[dict[str, str]]:
    """The scores of the groups for a table, game by game, the best first."""
    scores = []
    for group in groups:
        last = [run.last for run in group.runs]
        returns, bests, steps = (
            [each[name] for each in last if name in each] for name in (RETURN, "return_max", "agent_steps")
        )
        mean = float(np.mean(returns)) if returns else None
        score = {
            "game": game_name(group.env),
            "configuration": group.label or ALIKE,
            "runs": str(len(group.runs)),
            "mean return": on_page(mean),
            "lowest to highest": f"{on_page(min(returns))} to {on_page(max(returns))}" if returns[1:] else "",
            "best game": on_page(max(bests, default=None)),
            "steps": count(min(steps, default=None)),
        }
        scores.append((score["game"], math.inf if mean is None else -mean, score))
    return [score for _, _, score in sorted(scores, key=lambda each: each[:2])]


def each_alone(groups: Sequence[Group]) -> list[Group]:
    """A group for each run, named by its seed; by its folder too, where other runs have the same seed."""
    alone = []
    for group in groups:
        seeds = Counter(run.options.get("seed") for run in group.runs)
        for run in group.runs:
            seed = run.options.get("seed")
            words = (group.name, f"seed {seed}", run.folder.name if seeds[seed] > 1 else "")
            alone.append(group._replace(name=", ".join(filter(None, words)), runs=(run,)))
    return alone


def comparison_chart(
    title: str, groups: Sequence[Group], metric: str, frame: Frame, seen: Mapping[str, Line]
) -> ChartOptions:
    """The groups of one game: a line for each, with a band from the lowest to the highest seed."""
    lines = [line_of(group, seen[group.name], lambda run: frame.curve(run, metric)) for group in groups]
    return line_chart(title, [line for line in lines if line is not None], frame)


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by which runs differ, each key of each replay on its own."""
    found = dict(configuration(options).values)
    if isinstance(found["replay_parameters"], tuple):
        for place, replay in enumerate(found.pop("replay_parameters")):
            for key in REPLAY_KEYS[replay.type]:
                found[f"{replay.type} {key}" if key != "type" else f"replay {place + 1}"] = getattr(replay, key)
    return found


def search_chart(groups: Sequence[Group], results: Results) -> ChartOptions | None:
    """One line for each run across the options that differ and its mean return.

    None if there are too few runs for a picture. Options that only some runs have, such as those of one kind of replay,
    are left out, and so are more than MOST_AXES.
    """
    runs = [run for group in groups for run in group.runs if RETURN in run.last]
    all_settings = [settings(run.options) for run in runs]
    names = dict.fromkeys(name for one in all_settings for name in one)
    differing = [
        name
        for name in names
        if all(name in one for one in all_settings) and len({repr(one[name]) for one in all_settings}) > 1
    ][:MOST_AXES]
    if len(runs) < LEAST_RUNS or not differing:
        return None
    lines = [
        [*(_axis_value(one[name]) for name in differing), run.last[RETURN]]
        for run, one in zip(runs, all_settings, strict=True)
    ]
    axes = [*(name.replace("_", " ") for name in differing), "mean return"]
    return parallel_chart(SEARCH_TITLE, axes, lines, [results.name(run.folder) for run in runs])


def _axis_value(value: Any) -> float | str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None if value is None else game_name(str(value))[:LONGEST_LABEL]
