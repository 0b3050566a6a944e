"""Draw what the staggering rules do: actions and their intervals against the number of inference processes N.

python -m tests.benchmarks.staggering_plot [--fps=60] [--sigma=0.3] [--output=staggering.png]
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator
from numpy.typing import NDArray

from reports.panels import COLOURS
from reports.plot import FAINT_INK, INK, short_count, style_axes, write_picture
from tests.workers.realtime.simulation import Timing, measure, simulate
from workers.realtime.schedule import RULES, needed_processes

# The frames of 1/60 s that an inference of each network takes: the delays in the README of CERC-AAI/realtime_rl.
NETWORKS = {"1M": 5, "10M": 8, "100M": 70, "1B": 599}
PROCESSES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
INFERENCES = 40  # of each process, of which the first third is left out
STYLES = {"none": "no staggering", "max": "spaced by the longest time", "mean": "spaced by the mean"}


class LogNormal(NamedTuple):
    """Inference times whose logarithm is normal with deviation `sigma`."""

    mean: float  # of the times, in milliseconds
    sigma: float

    def sample(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        return random.lognormal(np.log(self.mean) - self.sigma**2 / 2, self.sigma, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fps", type=float, default=60.0, help="frames of the game in a second")
    parser.add_argument("--sigma", type=float, default=0.3, help="deviation of the logarithm of the inference times")
    parser.add_argument("--output", type=Path, default=Path("staggering.png"))
    given = parser.parse_args()
    frame = 1000 / given.fps
    models = {name: LogNormal(frames * 1000 / 60, given.sigma) for name, frames in NETWORKS.items()}
    timings = {name: simulated(model, frame, seed=1) for name, model in models.items()}
    write_picture(given.output, draw(models, timings, frame))
    for name, model in models.items():
        print(summary(name, model, timings[name], frame))


def simulated(model: LogNormal, frame: float, seed: int) -> dict[str, list[Timing]]:
    """The timing by each rule for each number in PROCESSES; all rules get the same inference times."""
    random = np.random.default_rng(seed)
    drawn = model.sample(random, PROCESSES[-1] * INFERENCES).reshape(-1, INFERENCES)
    timings: dict[str, list[Timing]] = {rule: [] for rule in RULES}
    for processes in PROCESSES:
        for rule in RULES:
            actions = simulate(rule, drawn[:processes], frame)
            since = min(actions.times[-1] / 3, actions.times[-2])  # the last inference may be that long
            timings[rule].append(measure(actions, frame, since))
    return timings


def summary(name: str, model: LogNormal, timings: dict[str, list[Timing]], frame: float) -> str:
    """How many of the simulated processes each rule needs to act in 99% of the frames."""
    words = []
    for rule, of_rule in timings.items():
        enough = [n for n, timing in zip(PROCESSES, of_rule, strict=True) if timing.missed <= 0.01]
        words.append(f"{rule} {enough[0]}" if enough else f"{rule} more than {PROCESSES[-1]}")
    needed = needed_processes(model.mean, frame)
    return f"{name}: {model.mean:,.0f} ms, ⌈mean / frame⌉ = {needed}; act in 99% of the frames with: {', '.join(words)}"


def draw(models: dict[str, LogNormal], timings: dict[str, dict[str, list[Timing]]], frame: float) -> Figure:
    """A column of panels for each network: actions that reach the game, deviation of the interval, age of actions."""
    figure = Figure(figsize=(3.3 * len(models) + 0.6, 7.6), dpi=100, facecolor="white")
    grid = figure.add_gridspec(3, len(models), left=0.06, right=0.985, top=0.94, bottom=0.115, wspace=0.16, hspace=0.22)
    rows: list[list[Axes]] = [[], [], []]
    for column, (name, model) in enumerate(models.items()):
        for row, panels in enumerate(rows):
            panels.append(figure.add_subplot(grid[row, column], sharey=panels[0] if panels and row < 2 else None))
        speed, deviation, age = (panels[column] for panels in rows)
        style_axes(speed, f"{name} parameters, {model.mean:,.0f} ms")
        for axes in (deviation, age):
            style_axes(axes, "")
        speed.axhline(1000 / frame, color=FAINT_INK, linewidth=1, linestyle=":")
        for colour, (rule, of_rule) in zip(COLOURS, timings[name].items(), strict=False):
            marks: dict[str, Any] = {"color": colour, "linewidth": 2, "marker": "o", "markersize": 3}
            speed.plot(PROCESSES, [1000 * timing.used_rate for timing in of_rule], **marks, label=STYLES[rule])
            spread = [timing.interval_deviation / timing.interval_mean for timing in of_rule]
            deviation.plot(PROCESSES, spread, **marks)
            age.plot(PROCESSES, [timing.age_mean / model.mean for timing in of_rule], **marks)
        for axes in (speed, deviation, age):
            _mark_needed(axes, needed_processes(model.mean, frame))
            _count_processes(axes)
        age.set_xlabel("inference processes N", fontsize=9, color=FAINT_INK)
    _label(rows)
    _legend(figure, rows[0][0], frame)
    return figure


def _mark_needed(axes: Axes, processes: int) -> None:
    axes.axvline(processes, color=FAINT_INK, linewidth=1, linestyle="--")


def _count_processes(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _label(rows: list[list[Axes]]) -> None:
    names = ("actions used per second", "deviation / mean of intervals", "age / mean inference time")
    for panels, name in zip(rows, names, strict=True):
        panels[0].set_ylabel(name, fontsize=9, color=FAINT_INK)
        for axes in panels:
            axes.set_ylim(bottom=0)
    rows[1][0].set_ylim(0, 1.2)


def _legend(figure: Figure, axes: Axes, frame: float) -> None:
    lines, labels = axes.get_legend_handles_labels()
    lines = [
        *lines,
        Line2D([], [], color=FAINT_INK, linewidth=1, linestyle="--"),
        Line2D([], [], color=FAINT_INK, linewidth=1, linestyle=":"),
    ]
    labels = [*labels, "N* = ⌈mean time / frame⌉", f"all {1000 / frame:g} frames"]
    figure.legend(lines, labels, loc="lower center", ncols=5, fontsize=9, frameon=False, labelcolor=INK)


if __name__ == "__main__":
    main()
