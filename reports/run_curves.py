"""curves.png: all curves of one run on one page."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from options.replay_options import parse_replays
from options.rules import UsageError
from reports.colours import COLOURS
from reports.plot_style import (
    FAINT_INK,
    INK,
    as_bytes,
    draw_line,
    format_counts,
    legend,
    limit_to_quantiles,
    new_figure,
    short_count,
    smoothed,
    style_axes,
    thinned,
    verbatim,
)
from reports.replay_labels import describe_replays
from reports.scores.human_scores import game_name
from run_files.metrics import LABELLED_LOSS_TERMS
from run_files.run_history import Curve, History, Series

COLUMNS = 4


class Panel(NamedTuple):
    """One small plot: its figures and their labels."""

    title: str
    lines: tuple[tuple[str, str], ...]  # (flat name, label)
    logarithmic: bool = False
    from_zero: bool = False  # the axis begins at 0
    hides_zero: bool = False  # a figure that is always 0 is switched off


PANELS = (
    Panel(
        "Terms of the loss",
        LABELLED_LOSS_TERMS,
        hides_zero=True,
    ),
    Panel("Entropy of the policy, nats", (("entropy", ""),)),
    Panel("Spread of the policy over states", (("policy_spread", ""),)),
    Panel("Norm of the gradient", (("gradient_norm", ""),)),
    Panel("Policy lag, updates", (("policy_lag_max", "oldest"), ("policy_lag_mean", "mean")), from_zero=True),
    Panel("KL divergence, acting to present policy", (("kl_fresh", "fresh"), ("kl_replayed", "replayed")), True),
    Panel("KL divergence, target to present policy", (("kl_target", ""),), True),
    Panel("Share of states that are clipped", (("clipped_share", ""),), from_zero=True),
)
# Of games that do not wait.
TIMING_PANELS = (
    Panel(
        "Age of the screens behind actions, frames",
        (("action_age_max", "maximum"), ("action_age_95", "95%"), ("action_age_mean", "mean")),
        from_zero=True,
    ),
    Panel(
        "Interval between actions, frames",
        (
            ("action_interval_max", "maximum"),
            ("action_interval_mean", "mean"),
            ("action_interval_deviation", "deviation"),
        ),
        from_zero=True,
    ),
    Panel("Share of frames, idle or late", (("idle_share", "idle action"), ("missed_share", "late")), from_zero=True),
    Panel("Inference time, ms", (("inference_ms_max", "maximum"), ("inference_ms_mean", "mean")), from_zero=True),
    Panel(
        "Inference processes that are needed",
        (("needed_processes_max", "by the maximum"), ("needed_processes_mean", "by the mean")),
        from_zero=True,
    ),
    Panel("Updates a second", (("updates_per_second", ""),), from_zero=True),
    Panel("Core-seconds for 1,000 frames", (("core_seconds_per_1000_frames", ""),), from_zero=True),
)
# Drawn only in free places of the last row.
SPARE_PANELS = (
    Panel("Importance weight π/μ", (("ratio_fresh", "fresh"), ("ratio_replayed", "replayed"))),
    Panel("Mean value", (("value_mean", ""),)),
    Panel("Learning rate", (("learning_rate", ""),)),
)


def draw_run(history: History) -> bytes:
    """Draw the page of one run, as a PNG."""
    panels = _panels(history)
    rows = 2 + math.ceil(max(0, len(panels) - 4) / COLUMNS)
    height = 1.15 + 2.6 * rows
    figure = new_figure(16, height)
    # Fixed margins: a layout engine would double the time of drawing.
    grid = figure.add_gridspec(
        rows, COLUMNS, left=0.035, right=0.988, bottom=0.42 / height, top=1 - 0.98 / height, wspace=0.2, hspace=0.32
    )
    last = history.curve("agent_steps").x[-1:].tolist() + history.games.x[-1:].tolist()
    steps = max(last, default=1.0)

    large = figure.add_subplot(grid[:2, :2])
    _draw_return(large, history)
    cells = [(0, 2), (0, 3), (1, 2), (1, 3)] + [(row, column) for row in range(2, rows) for column in range(COLUMNS)]
    all_axes = [large]
    for (row, column), draw in zip(cells, panels, strict=False):
        all_axes.append(figure.add_subplot(grid[row, column]))
        draw(all_axes[-1])
    for axes in all_axes:
        axes.set_xlim(0, 1.01 * steps)
        format_counts(axes, 8 if axes is large else 4)
    large.set_xlabel("agent steps", fontsize=9, color=FAINT_INK)
    _write_title(figure, history, height)
    return as_bytes(figure)


def _panels(history: History) -> list[Callable[[Axes], None]]:
    """A function for each panel that has data; it draws the panel."""
    names = set(history.names())

    def with_panel(panel: Panel) -> Callable[[Axes], None]:
        return lambda axes: _draw_panel(axes, panel, history)

    def shown(panels: Sequence[Panel]) -> list[Callable[[Axes], None]]:
        return [with_panel(panel) for panel in panels if any(name in names for name, _ in panel.lines)]

    draws = shown(PANELS) + (shown(TIMING_PANELS) if "idle_share" in names else [])
    lines = _ages(history)
    if lines:
        draws.append(with_panel(Panel("Mean age of replayed unrolls", lines, from_zero=True)))
    if "steps_per_second" in names:
        draws.append(lambda axes: _draw_speed(axes, history))
    if any(name.startswith("time_shares/") for name in names):
        draws.append(lambda axes: _draw_time(axes, history))
    free_places = -(len(draws) - 4) % COLUMNS if len(draws) > 4 else 4 - len(draws)
    return draws + shown(SPARE_PANELS)[:free_places]


def _ages(history: History) -> tuple[tuple[str, str], ...]:
    """The figures of the ages of replayed unrolls, `replays/1_elite/age_mean`, each with the type of its replay.

    Unrolls of a queue are new ones.
    """
    names = [name for name in history.names() if name.startswith("replays/") and name.endswith("/age_mean")]
    found = ((name, name.split("/")[1].partition("_")[2]) for name in names)
    return tuple((name, kind) for name, kind in found if kind != "queue")


def _draw_return(axes: Axes, history: History) -> None:
    style_axes(axes, "Return of full games")
    axes.title.set_fontsize(12)
    games = history.games
    if not len(games.x):
        axes.text(0.5, 0.5, "no game has ended yet", transform=axes.transAxes, ha="center", color=FAINT_INK)
        return
    points = thinned(games)
    size = float(np.clip(20_000 / len(points.x), 3, 25))
    axes.scatter(points.x, points.y, s=size, color=COLOURS[5], alpha=0.45, linewidths=0, label="each game")
    means = smoothed(games.y, history.return_window)
    label = f"mean of the last {history.return_window} games"
    axes.plot(games.x, means, color=COLOURS[0], linewidth=2.2, label=label)
    tested = history.curve("eval_return_mean")
    if len(tested.x):
        axes.plot(*tested, "o-", color=COLOURS[4], markersize=4, linewidth=1.2, label="test games, mean")
    axes.annotate(
        f"{means[-1]:z,.1f}".replace("-", "−"), (games.x[-1], means[-1]), xytext=(-4, 7),
        textcoords="offset points", ha="right", fontsize=11, fontweight="bold", color=COLOURS[0],
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )  # fmt: skip
    axes.margins(y=0.06)
    if np.ptp(points.y) < 1:  # one game, or equal returns
        axes.set_ylim(points.y.min() - 1, points.y.max() + 1)
    key = legend(axes, 9)
    assert key is not None
    cast(PathCollection, key.legend_handles[0]).set_sizes([25])


def _draw_panel(axes: Axes, panel: Panel, history: History) -> None:
    style_axes(axes, panel.title)
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.set_autoscaley_on(False)  # autoscaling warns about a single value
        axes.minorticks_off()
    drawn: list[Curve] = []
    for place, (name, label) in enumerate(panel.lines):
        curve = history.curve(name)
        if panel.logarithmic:
            curve = Curve(curve.x[curve.y > 0], curve.y[curve.y > 0])
        if not len(curve.x) or (panel.hides_zero and not curve.y.any()):
            continue
        means = np.exp(_means(Curve(curve.x, np.log(curve.y)))) if panel.logarithmic else _means(curve)
        draw_line(axes, curve, COLOURS[place], label, means)
        drawn.append(curve)
    if drawn and panel.logarithmic:
        low, high = min(curve.y.min() for curve in drawn), max(curve.y.max() for curve in drawn)
        margin = max((high / low) ** 0.06, 1.5)
        axes.set_ylim(low / margin, high * margin)
    elif drawn:
        limit_to_quantiles(axes, [curve.y for curve in drawn])
        if panel.from_zero:
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(float(f"{value:.6g}"))))
    legend(axes)


def _draw_speed(axes: Axes, history: History) -> None:
    style_axes(axes, "Speed, agent steps/s")
    curve = history.curve("steps_per_second")
    draw_line(axes, curve, COLOURS[0], "", _means(curve))
    axes.set_ylim(0, 1.15 * float(np.quantile(curve.y, 0.99)) or 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def _draw_time(axes: Axes, history: History) -> None:
    """The fractions of the learner's time, stacked, the largest at the bottom; small ones are left out."""
    style_axes(axes, "Where the learner's time goes")
    curves = {
        name.removeprefix("time_shares/"): history.curve(name)
        for name in history.names()
        if name.startswith("time_shares/")
    }
    whole = {name: curve for name, curve in curves.items() if len(curve.x) == max(len(c.x) for c in curves.values())}
    by_size = sorted(whole, key=lambda name: -float(whole[name].y.mean()))
    large = [name for name in by_size[:5] if whole[name].y.mean() > 0.005]
    if not large:
        return
    x = whole[large[0]].x
    shares = [_means(whole[name]) for name in large]
    axes.stackplot(x, *shares, labels=large, colors=COLOURS, alpha=0.75, linewidth=0)
    axes.set_ylim(0, 1)
    axes.grid(visible=False)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.legend(
        loc="lower left", fontsize=8, frameon=True, framealpha=0.85, edgecolor="none", handlelength=1, borderpad=0.3,
        labelcolor=INK,
    )  # fmt: skip


def _means(curve: Curve) -> Series:
    """Running mean over a fiftieth of the reports."""
    return smoothed(curve.y, max(1, len(curve.x) // 50))


def _write_title(figure: Figure, history: History, height: float) -> None:
    game = game_name(str(history.options.get("env", "")))
    figure.text(0.012, 1 - 0.40 / height, game, fontsize=18, fontweight="bold", color=INK)
    figure.text(0.012, 1 - 0.63 / height, verbatim(" · ".join(_facts(history))), fontsize=9.5, color=FAINT_INK)


def _facts(history: History) -> list[str]:
    """The configuration and the progress of the run, a few words each."""
    options = history.options
    facts = [f"{options[name]}" for name in ("network",) if name in options]
    if options.get("use_lstm"):
        facts.append(f"LSTM {options['lstm_size']}")
    if {"batch_size", "r_f_steps"} <= set(options):
        facts.append(f"batch {options['batch_size']} × {options['r_f_steps']} steps")
    with suppress(UsageError):  # replay settings of another version
        facts.append(describe_replays(parse_replays(str(options.get("replay_parameters")))))
    if {"optimizer", "lr"} <= set(options):
        facts.append(f"{options['optimizer']} {options['lr']:g}")
    if options.get("seed") is not None:
        facts.append(f"seed {options['seed']}")
    if history.reports:
        last = history.reports[-1]
        facts += [
            f"{short_count(last.get('agent_steps', 0.0))} steps",
            f"{short_count(last.get('frames', 0.0))} frames",
        ]
        facts.append(in_words(last.get("seconds", 0.0)))
    return [*facts, history.folder.name]


def in_words(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
