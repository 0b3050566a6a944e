"""Draws the curves of several runs: `python -m reports.plot results/A results/B`."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from machine.program import run_command
from options.command_line import split_words
from options.rules import Options, Rule, UsageError, counted, declared, did_you_mean, matching, one_of, option, whole
from reports.compare_runs import Group, group_runs, line_of, looks
from reports.panels import X_AXES, Line
from reports.scores import game_name
from run_files.run_folder import write_atomically
from run_files.run_reader import ARCHIVE, History, read_histories

INK, FAINT_INK, GRID = "#222222", "#6B6B6B", "#E6E6E6"
PICTURE = matching(r"(?s).*[^/]\.(png|svg|pdf)", "end in one of .png, .svg, .pdf", is_path=True)
METRIC = "return_mean"
CHARACTER_WIDTH = 0.071  # inches, in a label
USAGE = "usage: python -m reports.plot RUN|SWEEP [RUN ...] [--name=value ...]"


@dataclass(frozen=True, kw_only=True)
class PlotOptions(Options):
    x: str = option("steps", one_of(*X_AXES), "Unit of the x axis.")
    metric: str = option(METRIC, Rule(str, "be a field of metrics.jsonl", bool), "Field of metrics.jsonl to draw.")
    smooth: int = option(1, whole(1), "Draw the mean of this many latest reports.")
    only: str | None = option(
        None, Rule(str, "be texts such as seed1,seed2", bool),
        "Draw only the runs whose folder, or name in an archive, contains this text, or one of several with commas "
        "between them."
    )  # fmt: skip
    seeds: str = option(
        "mean", one_of("mean", "median"),
        "Line of several seeds: their mean, up to the end of the shortest, or their median, up to the end of the "
        "longest. For the median, a seed that has ended counts with its last value."
    )  # fmt: skip
    names: str | None = option(
        None, Rule(str, "be a file", bool, is_path=True),
        'JSON file with names for the labels, {"coloured": {"a name": "<begin of the names of its runs>"}, "grey": '
        "{...}}."
    )  # fmt: skip
    output: str = option("curves.png", PICTURE, "File to write.")


def main(arguments: Sequence[str]) -> None:
    flags, folders = split_words(arguments, declared(PlotOptions))
    given = PlotOptions(**flags)
    if not folders:
        raise UsageError(
            "reports.plot needs at least one RUN, the folder of a run or a sweep: python -m reports.plot results/<run>."
        )
    histories = [history for folder in folders for history in chosen(Path(folder), given.only)]
    if not histories and given.only is None:
        raise UsageError("the folders that were named have no run any more; the folder of a run would be right.")
    if not histories:
        raise UsageError(f"--only={given.only} is in the name of none of the runs; a part of a name would be right.")
    groups, left_out = compare(histories, given)
    for why in left_out:
        print(f"left out: {why}")
    drawn = sum(len(group.runs) for group in groups)
    print(f"{given.output}: {counted(drawn, 'run')} of {counted(len(groups), 'configuration')}")


def chosen(place: Path, only: str | None) -> list[History]:
    """The runs of a place, as far as their names contain one of the texts of --only."""
    texts = [text for text in (only or "").split(",") if text] or [""]
    begin = f"{place}/" if place.name.endswith(ARCHIVE) else ""  # the name of an archive does not count
    return [run for run in read_histories(place) if any(text in str(run.folder).removeprefix(begin) for text in texts)]


def compare(histories: Sequence[History], options: PlotOptions) -> tuple[list[Group], list[str]]:
    """Draw the runs; seeds of one configuration are drawn as their mean and range, each game in a panel of its own.

    Returns what was drawn, and why for each run that has nothing to draw. Raises UsageError if no run has.
    """
    axis = X_AXES[options.x]
    curve = partial(axis.curve, figure=options.metric, window=options.smooth)
    given = [history for group in group_runs(histories) for history in group.runs]
    with_values = [history for history in given if len(history.curve(options.metric, axis.figure).x)]
    left_out = [f"{history.folder} has no {options.metric} yet" for history in given if history not in with_values]
    if not with_values:
        raise UsageError(left_out[0] + did_you_mean(options.metric, given[0].names()))
    groups, grey = named_groups(with_values, options.names)
    seen = looks(groups, grey)
    games = list(dict.fromkeys(group.env for group in groups))
    figure, panels = _page(len(games), [look for look in seen.values() if look.label])
    for axes, game in zip(panels, games, strict=True):
        style_axes(axes, game_name(game))
        for group in groups:
            line = line_of(group, seen[group.name], curve, to_end=options.seeds == "median")
            if group.env == game and line is not None:
                _draw_line(axes, line)
        axes.margins(x=0.01)
        format_counts(axes, 6)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(float(f"{value:.6g}"))))
        axes.set_xlabel(axis.label, fontsize=9, color=FAINT_INK)
    windows = {history.return_window for history in with_values}
    is_mean = options.metric == METRIC and len(windows) == 1
    metric = f"mean return of the last {windows.pop()} games" if is_mean else options.metric
    panels[0].set_ylabel(metric, fontsize=9, color=FAINT_INK)
    write_picture(Path(options.output), figure)
    return groups, left_out


def named_groups(histories: Sequence[History], names: str | None = None) -> tuple[list[Group], set[str]]:
    """The groups of the runs, with the names of the file `names`, and which of these names are drawn in grey.

    A group of whose first run the file says nothing keeps the options in which it differs as its name.
    """
    if names is None:
        return group_runs(histories), set()
    try:
        content = json.loads(Path(names).read_text(encoding="utf-8"))
        begins = {begin: name for section in ("coloured", "grey") for name, begin in content.get(section, {}).items()}
        grey = set(content.get("grey", {}))
    except (OSError, ValueError, AttributeError, TypeError):
        raise UsageError(f"--names={names} is not a JSON file of names, as --help describes it.") from None
    groups = [
        group._replace(name=next((name for begin, name in begins.items() if run.startswith(begin)), group.name))
        for group in group_runs(histories)
        for run in [group.runs[0].folder.name]
    ]
    return groups, grey


def _page(games: int, looks: Sequence[Line]) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each game, and the labels of all panels below them, each once."""
    columns = min(3, games)
    rows = -(-games // columns)
    width, height = (9.5, 5.4) if games == 1 else (4.8 * columns, 3.4 * rows)
    wrapped = [verbatim(textwrap.fill(look.label, int((width - 1.2) / CHARACTER_WIDTH))) for look in looks]
    height += 0.21 * sum(label.count("\n") + 1 for label in wrapped)
    figure = Figure(figsize=(width, height), dpi=100, facecolor="white",
                    layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))  # fmt: skip
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(games)]
    if looks:
        lines = [Line2D([], [], linewidth=2.2, **_style(look)) for look in looks]
        figure.legend(lines, wrapped, loc="outside lower left", fontsize=9, frameon=False, labelcolor=INK,
                      handlelength=3.2 if any(look.dashes for look in looks) else 2)  # fmt: skip
    return figure, panels


def _style(look: Line) -> dict[str, Any]:
    return {"color": look.colour, "linestyle": (0, tuple(look.dashes)) if look.dashes else "solid"}


def _draw_line(axes: Axes, line: Line) -> None:
    marker = "o" if len(line.x) == 1 else ""  # a line of one point is invisible
    if line.low is None or line.high is None or line.is_grey:
        width, layer = (1.4, 1.5) if line.is_grey else (2, 2)
        axes.plot(line.x, line.y, linewidth=width, marker=marker, zorder=layer, **_style(line))
        return
    for curve in line.seeds:
        axes.plot(*curve, linewidth=0.7, marker="o" if len(curve.x) == 1 else "", alpha=0.35, **_style(line))
    axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.16, linewidth=0)
    axes.plot(line.x, line.y, linewidth=2.2, marker=marker, **_style(line))


def style_axes(axes: Axes, title: str) -> None:
    """Give a panel a title, a light grid and no frame."""
    axes.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold", pad=6)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#BBBBBB")
    axes.tick_params(colors=FAINT_INK, labelsize=8, length=3, color="#BBBBBB")


def format_counts(axes: Axes, max_ticks: int = 5) -> None:
    """Label the x axis with short counts: 0, 500k, 1M, 1.5M."""
    axes.xaxis.set_major_locator(MaxNLocator(max_ticks, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def short_count(value: float) -> str:
    """1,250,000 as `1.25M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            if abs(value) >= 1e12:
                return f"{value:.2g}".replace("e+", "e").replace("-", "−")
            return f"{value / size:.4g}{letter}".replace("-", "−")
    return f"{value:z.4g}".replace("-", "−")


def verbatim(text: str) -> str:
    """The text in such a way that matplotlib does not read what is between two dollar signs as mathematics."""
    return text.replace("$", r"\$")


def as_bytes(figure: Figure, kind: str = "png") -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=kind)
    return buffer.getvalue()


def write_picture(output: Path, figure: Figure) -> None:
    """Write the file of --output, as what its name ends in. Raises UsageError if it cannot be written."""
    picture = as_bytes(figure, output.suffix.removeprefix("."))
    try:
        write_atomically(output, picture)
    except OSError as error:
        raise UsageError(f"--output={output} cannot be written ({error.strerror}).") from None


if __name__ == "__main__":
    run_command(main, USAGE, PlotOptions)
