"""curves.png: all curves of one run on one page. The process of `reports/sinks.py` redraws it during the run."""

import math
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from option_flags import OPTIONS
from options.replay_options import parse_replays
from options.rules import UsageError
from reports.compare_runs import describe_replays
from reports.number_format import duration, on_page
from reports.panels import MEAN, TESTED, X_AXES, Panel, page_panels, return_lines, smoothed
from reports.plot import FAINT_INK, INK, as_bytes, format_counts, short_count, style_axes, verbatim
from reports.scores import game_name
from run_files.run_folder import write_atomically
from run_files.run_reader import CHOSEN_NETWORK, History, RunReader, Series

FILE = "curves.png"
COUNTED = {"agent_steps": "steps", "frames": "frames"}
COLUMNS = 4
MOST_POINTS = 20_000  # games that are drawn; more would look the same and take longer
LOOK_SECONDS = 1.0  # between two looks for new reports
PAUSE = 30  # drawing times; so drawing takes a thirtieth of a core at most


def redraw(connection: Connection, folder: Path) -> None:
    """Draw a run whenever it has new figures, until the connection is closed, and then a last time."""
    run = RunReader(folder)
    wait = 0.0
    ended = False
    while not ended:
        ended = connection.poll(wait)
        wait = LOOK_SECONDS
        begun = time.process_time()
        changed = run.refresh()
        if not run.config:
            raise UsageError(f"{folder}/config.json is missing or damaged")
        if changed and run.history.reports:
            picture = draw_run(run.history)
            with suppress(OSError):  # a full disk, which the run itself announces; the next drawing tries again
                write_atomically(folder / FILE, picture)
            wait = PAUSE * (time.process_time() - begun)


def draw_run(history: History) -> bytes:
    """Draw the page of one run, as a PNG."""
    panels = page_panels(history)
    rows = 2 + math.ceil(max(0, len(panels) - 4) / COLUMNS)
    height = 1.15 + 2.6 * rows
    figure = Figure(figsize=(16, height), dpi=100, facecolor="white")
    # Fixed margins: a layout engine would double the time of drawing.
    grid = figure.add_gridspec(
        rows, COLUMNS, left=0.035, right=0.988, bottom=0.42 / height, top=1 - 0.98 / height, wspace=0.2, hspace=0.32
    )
    steps = max(history.curve("agent_steps").x[-1:].tolist() + history.games.x[-1:].tolist(), default=1.0)

    large = figure.add_subplot(grid[:2, :2])
    _draw_return(large, history)
    cells = [(0, 2), (0, 3), (1, 2), (1, 3)] + [(row, column) for row in range(2, rows) for column in range(COLUMNS)]
    all_axes = [large]
    for (row, column), panel in zip(cells, panels, strict=False):
        all_axes.append(figure.add_subplot(grid[row, column]))
        _draw_panel(all_axes[-1], panel, history)
    for axes in all_axes:
        axes.set_xlim(0, 1.01 * steps)
        format_counts(axes, 8 if axes is large else 4)
    large.set_xlabel("agent steps", fontsize=9, color=FAINT_INK)
    game = game_name(str(history.options.get("env", "")))
    figure.text(0.012, 1 - 0.40 / height, game, fontsize=18, fontweight="bold", color=INK)
    figure.text(0.012, 1 - 0.63 / height, verbatim(" · ".join(_facts(history))), fontsize=9.5, color=FAINT_INK)
    return as_bytes(figure)


def _draw_return(axes: Axes, history: History) -> None:
    style_axes(axes, "Return of full games")
    axes.title.set_fontsize(12)
    lines = return_lines(history, X_AXES["steps"])
    if not lines:
        axes.text(0.5, 0.5, "no game has ended yet", transform=axes.transAxes, ha="center", color=FAINT_INK)
        return
    for line in lines:
        if line.dots:
            kept = np.linspace(0, len(line.x) - 1, min(MOST_POINTS, len(line.x))).astype(int)
            size = float(np.clip(60 / np.sqrt(len(kept)), 1.8, 5))
            axes.plot(line.x[kept], line.y[kept], "o", markersize=size, markeredgewidth=0, alpha=0.45,
                      color=line.colour, label=line.label)  # fmt: skip
        else:
            marker = "o" if line.colour == TESTED or len(line.x) == 1 else ""
            axes.plot(line.x, line.y, color=line.colour, linewidth=2, marker=marker, markersize=4, label=line.label)
        if line.colour == MEAN:
            axes.annotate(
                on_page(float(line.y[-1])), (line.x[-1], line.y[-1]), xytext=(-4, 7),
                textcoords="offset points", ha="right", fontsize=11, fontweight="bold", color=MEAN,
                path_effects=[withStroke(linewidth=3, foreground="white")],
            )  # fmt: skip
    low, high = axes.get_ylim()
    if high - low < 1:  # one game, or equal returns
        axes.set_ylim(low - 1, high + 1)
    _legend(axes, 9)


def _draw_panel(axes: Axes, panel: Panel, history: History) -> None:
    style_axes(axes, panel.title)
    if panel.stacked:
        _draw_shares(axes, panel, history)
        return
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.set_autoscaley_on(False)  # autoscaling warns about a single value
        axes.minorticks_off()
    drawn: list[Series] = []
    for line in panel.lines(history.curve):
        x, y = (line.x[line.y > 0], line.y[line.y > 0]) if panel.logarithmic else (line.x, line.y)
        if not len(x):
            continue
        means = np.exp(_means(np.log(y))) if panel.logarithmic else _means(y)
        # As it was reported, thin and light, and its running mean on top.
        axes.plot(x, y, color=line.colour, alpha=0.22, linewidth=0.8)
        marker = "o" if len(x) == 1 else ""  # a line of one point is invisible
        axes.plot(x, means, color=line.colour, linewidth=1.5, label=line.label, marker=marker, markersize=3)
        drawn.append(y)
    if drawn:
        _limit(axes, panel, np.concatenate(drawn))
    _legend(axes, 8)


def _limit(axes: Axes, panel: Panel, values: Series) -> None:
    """The range of the y axis, and its labels. A few extreme values do not flatten the rest."""
    if panel.logarithmic:
        margin = max((values.max() / values.min()) ** 0.06, 1.5)
        axes.set_ylim(values.min() / margin, values.max() * margin)
        return
    low, high = np.quantile(values, [0.01, 0.99])
    if high > low:
        axes.set_ylim(low - 0.12 * (high - low), high + 0.12 * (high - low))
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    in_words = (lambda value, _: f"{value:.0%}") if panel.percent else (lambda value, _: short_count(value))
    axes.yaxis.set_major_formatter(FuncFormatter(in_words))


def _legend(axes: Axes, size: float) -> None:
    """The names of the lines in room made above them, three in a row; a single line gets no legend."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) <= 1:
        return
    room = 2.4 * size * -(-len(names) // 3) / axes.bbox.height  # as a fraction of the panel
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        axes.set_ylim(low, high * (high / low) ** (room / (1 - room)))
    else:
        axes.set_ylim(low, high + (high - low) * room / (1 - room))
    axes.legend(
        handles, names, loc="upper left", ncols=3, fontsize=size, frameon=False, borderpad=0, borderaxespad=0.3,
        handlelength=1.2, handletextpad=0.5, columnspacing=1.2, labelspacing=0.3, labelcolor=INK,
    )  # fmt: skip


def _draw_shares(axes: Axes, panel: Panel, history: History) -> None:
    """Fractions of the time on top of each other; small ones are left out."""
    lines = panel.lines(history.curve)
    longest = max(len(line.x) for line in lines)
    large = [line for line in lines if len(line.x) == longest and line.y.mean() > 0.005]
    if not large:
        return
    labels, colours = [line.label for line in large], [line.colour for line in large]
    axes.stackplot(large[0].x, *(_means(line.y) for line in large), labels=labels, colors=colours, alpha=0.75,
                   linewidth=0)  # fmt: skip
    axes.set_ylim(0, 1)
    axes.grid(visible=False)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.legend(
        loc="lower left", fontsize=8, frameon=True, framealpha=0.85, edgecolor="none", handlelength=1, borderpad=0.3,
        labelcolor=INK,
    )  # fmt: skip


def _means(values: Series) -> Series:
    """Running mean over a fiftieth of the reports."""
    return smoothed(values, max(1, len(values) // 50))


def _facts(history: History) -> list[str]:
    """The configuration and the progress of the run, a few words each."""
    options = {name: item.default for name, item in OPTIONS.items()} | dict(history.options)
    facts = [str(options.get(CHOSEN_NETWORK, options["network"]))]
    if options["use_lstm"]:
        facts.append(f"LSTM {options['lstm_size']}")
    facts.append(f"batch {options['batch_size']} × {options['r_f_steps']} steps")
    with suppress(UsageError):  # replay settings of another version
        facts.append(describe_replays(parse_replays(str(options["replay_parameters"]))))
    facts += [f"{options['optimizer']} {options['lr']:g}", f"seed {options['seed']}"]
    if last := history.last:
        facts += [f"{short_count(last.get(name, 0.0))} {word}" for name, word in COUNTED.items()]
        facts.append(duration(last.get("seconds", 0.0)))
    return [*facts, history.folder.name, *([f"tags {options['tags']}"] if options["tags"] else [])]
