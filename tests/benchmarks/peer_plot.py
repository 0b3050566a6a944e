"""The picture of docs/performance.md#beside-other-platforms: returns and speeds, from the benchmark `peers`."""

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from reports.panels import COLOURS
from reports.plot import FAINT_INK, INK, short_count, style_axes
from reports.scores import game_name, interquartile_mean_of_runs
from run_files.metrics import Report
from tests.benchmarks.peer_table import Scores, by_run, measured_speed, normalised
from tests.benchmarks.peers import TITLES

DOTS = ("o", "s", "^", "D", "v", "P")  # one for each game


def draw(rows: Sequence[Report]) -> Figure:
    """A bar for each arm over all runs, and a dot for each run.

    The line of a bar is the 95% bootstrap interval over seeds; with one seed, there is none, and it goes from the
    lowest game to the highest.
    """
    arms = [arm for arm in TITLES if any(row["arm"] == arm for row in rows)]
    games = list(dict.fromkeys(str(row["game"]) for row in rows))
    figure = Figure(figsize=(9.5, 3.4), dpi=100, facecolor="white")
    returns, speeds = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.135, right=0.985, top=0.88, bottom=0.27, wspace=0.09)
    style_axes(returns, "Human-normalised return after 20 minutes")
    style_axes(speeds, "Agent steps per second")
    spread = ""
    for place, arm in enumerate(arms):
        scores, measured = by_run(rows, arm, normalised), by_run(rows, arm, measured_speed)
        by_game = {game: [value for (own, _), value in scores.items() if own == game] for game in games}
        value, interval = interquartile_mean_of_runs(by_game)
        low, high = interval or (min(scores.values()), max(scores.values()))
        spread = "95% interval over seeds" if interval else "from the lowest game to the highest, one seed each"
        _bar(returns, place, value, (low, high))
        _bar(speeds, place, statistics.fmean(measured.values()), (min(measured.values()), max(measured.values())))
        for axes, found in ((returns, scores), (speeds, measured)):
            _dots(axes, place, games, found)
    for axes in (returns, speeds):
        axes.set_yticks(
            range(len(arms)), [TITLES[arm] for arm in arms] if axes is returns else [], color=INK, fontsize=9
        )
        axes.set_ylim(len(arms) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
    returns.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    speeds.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    handles, labels = returns.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="lower left", ncols=len(games), fontsize=8, frameon=False, bbox_to_anchor=(0.125, 0.06)
    )
    text = f"Bars: interquartile mean of the returns, mean of the speeds. Lines: {spread}."
    figure.text(0.135, 0.03, text, fontsize=8, color=FAINT_INK)
    return figure


def _bar(axes: Axes, place: int, value: float, ends: tuple[float, float]) -> None:
    axes.barh(place, value, height=0.62, color=COLOURS[0] if place == 0 else "#B9BEC4", zorder=1)
    axes.plot(ends, (place, place), color=INK, linewidth=1.2, zorder=2)


def _dots(axes: Axes, place: int, games: Sequence[str], found: Scores) -> None:
    for mark, game in zip(DOTS, games, strict=False):
        values = [value for (own, _), value in found.items() if own == game]
        label = game_name(game) if place == 0 else None
        axes.plot(values, [place] * len(values), mark, color="white", markeredgecolor=INK, markersize=5, label=label)
