"""Draws the curves of several runs: `python -m reports.plot results/A results/B`."""

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from machine.program import run_command
from options.command_line import split_words
from options.rules import Options, Rule, UsageError, counted, declared, one_of, option, whole
from reports.compare_runs import Group, group_runs, label_of_all, seed_band
from reports.panels import COLOURS, X_AXES, dashes
from reports.plot_style import (
    FAINT_INK,
    INK,
    format_counts,
    new_figure,
    output_option,
    short_count,
    smoothed,
    style_axes,
    verbatim,
    write_picture,
)
from reports.published_scores import game_name
from run_files.curve_archive import SUFFIX, read_histories
from run_files.run_history import Curve, History

METRIC = "return_mean"
CHARACTER_WIDTH = 0.071  # inches, in a label


USAGE = "usage: python -m reports.plot RUN [RUN ...] [--name=value ...]"


@dataclass(frozen=True, kw_only=True)
class PlotOptions(Options):
    topic = "Options"

    x: str = option("steps", one_of(*X_AXES), "Unit of the x axis.")
    metric: str = option(METRIC, Rule(str, "be a field of metrics.jsonl", bool), "Field of metrics.jsonl to draw.")
    smooth: int = option(1, whole(1), "Draw the mean of this many latest reports.")
    only: str | None = option(
        None, Rule(str, "be texts such as seed1,seed2", bool, optional=True),
        "Draw only the runs whose folder, or name in an archive, contains this text, or one of several with commas "
        "between them."
    )  # fmt: skip
    output: str = output_option("curves.png")


def main(arguments: Sequence[str]) -> None:
    flags, folders = split_words(arguments, declared(PlotOptions))
    given = PlotOptions(**flags)
    if not folders:
        raise UsageError("reports.plot needs at least one RUN, a run folder: python -m reports.plot results/<run>.")
    output = Path(given.output)
    histories = [history for folder in folders for history in chosen(Path(folder), given.only)]
    if not histories:
        raise UsageError(f"--only={given.only} is in the name of none of the runs; a part of a name would be right.")
    groups, left_out = compare(histories, output, x=given.x, metric=given.metric, smooth=given.smooth)
    for problem in left_out:
        print(f"left out: {problem}")
    drawn = sum(len(group.runs) for group in groups)
    print(f"{output}: {counted(drawn, 'run')} of {counted(len(groups), 'configuration')}")


def chosen(place: Path, only: str | None) -> list[History]:
    """The run in a folder, or the runs of an archive, as far as their names contain one of the texts of --only."""
    texts = [text for text in (only or "").split(",") if text] or [""]
    if place.name.endswith(SUFFIX):
        return [run for run in read_histories(place) if any(text in run.folder.name for text in texts)]
    return read_histories(place) if any(text in str(place) for text in texts) else []


class Comparison(NamedTuple):
    groups: list[Group]  # what was drawn
    left_out: list[str]  # why, for each run that has nothing to draw


def compare(
    histories: Sequence[History], output: Path, *, x: str = "steps", metric: str = METRIC, smooth: int = 1
) -> Comparison:
    """Draw the runs into the file `output`; seeds of one configuration are drawn as their mean and range.

    Each game has its own panel. Raises UsageError if no run has a value of the metric.
    """
    given = [history for group in group_runs(histories) for history in group.runs]
    problems = {history.folder: _why_left_out(history, x, metric) for history in given}
    if all(problems.values()):
        raise UsageError("; ".join(next(filter(None, problems.values()))))
    groups = group_runs([history for history in given if problems[history.folder] is None])
    looks = _looks(groups)
    games = list(dict.fromkeys(group.env for group in groups))
    figure, panels = _page(len(games), [look.label for look in looks.values() if look.label])
    for axes, game in zip(panels, games, strict=True):
        style_axes(axes, game_name(game))
        for group in groups:
            if group.env == game:
                curves = [_curve(history, x, metric, smooth) for history in group.runs]
                _draw_group(axes, curves, looks[group.name])
        axes.margins(x=0.01)
        format_counts(axes, 6)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(float(f"{value:.6g}"))))
        axes.set_xlabel(X_AXES[x].label, fontsize=9, color=FAINT_INK)
    drawn = [history for group in groups for history in group.runs]
    panels[0].set_ylabel(_metric_name(metric, drawn), fontsize=9, color=FAINT_INK)
    if any(look.label for look in looks.values()):
        _write_labels(figure, wide=any(look.dashes for look in looks.values()))
    write_picture(output, figure)
    return Comparison(groups, [problem.reason for problem in problems.values() if problem])


class _Look(NamedTuple):
    """How the lines of one configuration look in all panels, and their label below."""

    colour: str
    dashes: tuple[float, ...]
    label: str


def _looks(groups: Sequence[Group]) -> Mapping[str, _Look]:
    """By name. A configuration may have another number of seeds in each game."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.name, []).append(group)
    return {
        name: _Look(COLOURS[place % len(COLOURS)], dashes(place), label_of_all(own))
        for place, (name, own) in enumerate(found.items())
    }


def _metric_name(metric: str, histories: Sequence[History]) -> str:
    windows = {history.return_window for history in histories}
    if metric != METRIC or len(windows) > 1:
        return metric
    return f"mean return of the last {windows.pop()} games"


def _write_labels(figure: Figure, *, wide: bool) -> None:
    """The labels of all panels, each once, below them; with dashes, the lines beside them are `wide`."""
    panels = figure.axes
    lines = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = [_wrapped(label, figure.get_figwidth()) for label in lines]
    figure.legend(
        list(lines.values()), labels, loc="lower left", bbox_to_anchor=(0.06, 0.005), fontsize=9, frameon=False,
        labelcolor=INK, handlelength=3.2 if wide else 2,
    )  # fmt: skip


def _wrapped(label: str, width: float) -> str:
    """Break a label into lines that fit a page of `width` inches."""
    return verbatim(textwrap.fill(label, int((width - 1.2) / CHARACTER_WIDTH)))


def _page(games: int, labels: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each game, and room for the labels below."""
    columns = min(3, games)
    rows = -(-games // columns)
    width, panels_height = (9.5, 5.4) if games == 1 else (4.8 * columns, 3.4 * rows)
    below = 0.6 + 0.21 * sum(_wrapped(label, width).count("\n") + 1 for label in labels)
    height = panels_height + below
    figure = new_figure(width, height)
    grid = figure.add_gridspec(
        rows, columns, left=0.72 / width, right=1 - 0.2 / width, bottom=below / height, top=1 - 0.42 / height,
        wspace=0.2, hspace=0.42,
    )  # fmt: skip
    return figure, [figure.add_subplot(grid[place // columns, place % columns]) for place in range(games)]


def _draw_group(axes: Axes, curves: Sequence[Curve], look: _Look) -> None:
    style: dict[str, Any] = {"color": look.colour, "linestyle": (0, look.dashes) if look.dashes else "solid"}
    if len(curves) == 1:
        marker = "o" if len(curves[0].x) == 1 else ""  # a line of one point is invisible
        axes.plot(*curves[0], linewidth=2, label=look.label, marker=marker, **style)
        return
    for curve in curves:
        axes.plot(*curve, linewidth=0.7, alpha=0.35, **style)
    band = seed_band(curves)
    axes.fill_between(band.x, band.low, band.high, color=look.colour, alpha=0.16, linewidth=0)
    axes.plot(band.x, band.mean, linewidth=2.2, label=look.label, **style)


def _curve(history: History, x: str, metric: str, smooth: int) -> Curve:
    axis = X_AXES[x]
    curve = history.curve(metric, axis.figure)
    return Curve(curve.x / axis.unit, smoothed(curve.y, smooth))


class _Problem(NamedTuple):
    reason: str
    advice: str


def _why_left_out(history: History, x: str, metric: str) -> _Problem | None:
    """Why the run has nothing to draw; None if it has."""
    if len(history.curve(metric, X_AXES[x].figure).x):
        return None
    if not history.reports:
        return _Problem(f"{history.folder} has no metrics yet", "choose a run that has written a report.")
    if metric in history.names():
        return _Problem(f"{history.folder} has no {X_AXES[x].figure} in its metrics", "choose another --x.")
    if metric == METRIC:
        advice = "choose another metric, such as --metric=entropy."
        return _Problem(f"no game has ended in {history.folder} yet", advice)
    closest = difflib.get_close_matches(metric, history.names(), n=1)
    hint = f"did you mean {closest[0]}?" if closest else "choose a field of metrics.jsonl with numbers."
    return _Problem(f"--metric={metric} has no numbers in {history.folder}", hint)


if __name__ == "__main__":
    run_command(main, USAGE, PlotOptions)
