"""Draws the curves of several runs: `python -m reports.plot results/A results/B`."""

from machine.limits import end_if_memory_is_limited, explain_limits

if __name__ == "__main__":
    explain_limits()  # before the imports that need much memory
    end_if_memory_is_limited()

import difflib
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from machine.run_command import run_command
from options.command_line import split_words
from options.rules import Options, Rule, UsageError, counted, declared, one_of, option, whole
from reports.colours import COLOURS
from reports.compare_runs import Group, group_runs, seed_band
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
from reports.scores.human_scores import game_name
from reports.x_axes import X_AXES
from run_files.curve_archive import read_histories
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
    output: str = output_option("curves.png")


def main(arguments: Sequence[str]) -> None:
    flags, folders = split_words(arguments, declared(PlotOptions))
    given = PlotOptions(**flags)
    if not folders:
        raise UsageError("reports.plot needs at least one RUN, a run folder: python -m reports.plot results/<run>.")
    output = Path(given.output)
    histories = [history for folder in folders for history in read_histories(Path(folder))]
    groups = compare(histories, output, x=given.x, metric=given.metric, smooth=given.smooth)
    drawn = sum(len(group.runs) for group in groups)
    print(f"{output}: {counted(drawn, 'run')} of {counted(len(groups), 'configuration')}")


def compare(
    histories: Sequence[History], output: Path, *, x: str = "steps", metric: str = METRIC, smooth: int = 1
) -> list[Group]:
    """Draw the runs into the file `output`; seeds of one configuration are drawn as their mean and range.

    Each game has its own panel. Raises UsageError if a run has no value of the metric.
    """
    groups = group_runs(histories)
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(dict.fromkeys(g.label for g in groups))}
    games = list(dict.fromkeys(group.env for group in groups))
    figure, panels = _page(len(games), list(colours) if any(colours) else [])
    for axes, game in zip(panels, games, strict=True):
        style_axes(axes, game_name(game))
        for group in groups:
            if group.env == game:
                curves = [_curve(history, x, metric, smooth) for history in group.runs]
                _draw_group(axes, curves, colours[group.label], group.label)
        axes.margins(x=0.01)
        format_counts(axes, 6)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(float(f"{value:.6g}"))))
        axes.set_xlabel(X_AXES[x].label, fontsize=9, color=FAINT_INK)
    panels[0].set_ylabel(_metric_name(metric, histories), fontsize=9, color=FAINT_INK)
    if any(colours):
        lines = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        labels = [_wrapped(label, figure.get_figwidth()) for label in lines]
        figure.legend(
            list(lines.values()), labels, loc="lower left", bbox_to_anchor=(0.06, 0.005), fontsize=9,
            frameon=False, labelcolor=INK,
        )  # fmt: skip
    write_picture(output, figure)
    return groups


def _metric_name(metric: str, histories: Sequence[History]) -> str:
    windows = {history.return_window for history in histories}
    if metric != METRIC or len(windows) > 1:
        return metric
    return f"mean return of the last {windows.pop()} games"


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


def _draw_group(axes: Axes, curves: Sequence[Curve], colour: str, label: str) -> None:
    if len(curves) == 1:
        marker = "o" if len(curves[0].x) == 1 else ""  # a line of one point is invisible
        axes.plot(*curves[0], color=colour, linewidth=2, label=label, marker=marker)
        return
    for curve in curves:
        axes.plot(*curve, color=colour, linewidth=0.7, alpha=0.35)
    band = seed_band(curves)
    axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(band.x, band.mean, color=colour, linewidth=2.2, label=label)


def _curve(history: History, x: str, metric: str, smooth: int) -> Curve:
    axis = X_AXES[x]
    curve = history.curve(metric, axis.figure)
    if len(curve.x):
        return Curve(curve.x / axis.unit, smoothed(curve.y, smooth))
    if not history.reports:
        raise UsageError(f"{history.folder} has no metrics yet; choose a run that has written a report.")
    if metric in history.names():
        raise UsageError(f"{history.folder} has no {axis.figure} in its metrics; choose another --x.")
    if metric == METRIC:
        raise UsageError(f"no game has ended in {history.folder} yet; choose another metric, such as --metric=entropy.")
    closest = difflib.get_close_matches(metric, history.names(), n=1)
    hint = f"did you mean {closest[0]}?" if closest else "choose a field of metrics.jsonl with numbers."
    raise UsageError(f"--metric={metric} has no numbers in {history.folder}; {hint}")


if __name__ == "__main__":
    run_command(main, USAGE, PlotOptions)
