"""The charts of one run: which figures each shows, and their lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dashboard.charts import LINES, ChartOptions, Line, Numbers, line_chart
from reports.x_axes import X_AXES, XAxis
from run_files.metrics import LABELLED_LOSS_TERMS
from run_files.run_history import Curve, History

CHOICES = ("steps", "frames", "hours")  # of the x axis


@dataclass(frozen=True)
class Panel:
    """One chart: its figures by flat name with their labels. A name that ends in `/` stands for all that begin so."""

    title: str
    figures: Sequence[tuple[str, str]]
    logarithmic: bool = False
    percent: bool = False
    stacked: bool = False
    without_zero: bool = False  # leave out figures that are always 0, such as switched-off losses


LOSSES = Panel("Terms of the loss", LABELLED_LOSS_TERMS, without_zero=True)
LEARNING = (
    LOSSES,
    Panel("Entropy of the policy, nats", (("entropy", ""),)),
    Panel("Policy lag, updates", (("policy_lag_mean", "mean"), ("policy_lag_max", "oldest"))),
    Panel("KL divergence, acting to present policy", (("kl_fresh", "fresh"), ("kl_replayed", "replayed")), True),
    Panel("KL divergence, target to present policy", (("kl_target", ""),), True),
    Panel("Share of states that are clipped", (("clipped_share", ""),), percent=True),
    Panel("Norm of the gradient", (("gradient_norm", ""),)),
    Panel("Mean value estimate", (("value_mean", ""),)),
    Panel("Spread of the policy over states", (("policy_spread", ""),)),
    Panel("Importance weight π/μ", (("ratio_fresh", "fresh"), ("ratio_replayed", "replayed"))),
    Panel("Ratio to the target policy", (("ratio_target", ""),)),
    Panel("Learning rate", (("learning_rate", ""),)),
)
MACHINE = (
    Panel("Speed, agent steps per second", (("steps_per_second", ""),)),
    Panel("Time of the learner", (("time_shares/", ""),), percent=True, stacked=True),
    Panel("Time of the workers", (("worker_time_shares/", ""),), percent=True, stacked=True),
    Panel("CPU, percent of one core", (("cpu_learner", "learner"), ("cpu_workers", "all workers"))),
    Panel("Memory, MB", (("memory_learner_mb", "learner"), ("memory_workers_mb", "workers"))),
    Panel("GPU, percent", (("gpu_utilization", ""),)),
    Panel("GPU memory, MB", (("gpu_memory_mb", ""),)),
    Panel("Power, watts", (("cpu_watts", "CPU"), ("gpu_watts", "GPU"))),
    Panel("Energy so far, watt-hours", (("cpu_watt_hours", "CPU"), ("gpu_watt_hours", "GPU"))),
    Panel("Rounds of unrolls in flight", (("rounds_under_way", ""),)),
    Panel("Replaced workers", (("worker_restarts", ""),), without_zero=True),
)


def shown_panels(panels: Sequence[Panel], history: History) -> list[Panel]:
    """The panels that have any figure in the reports, with the names of their figures written out."""
    names = history.names()
    found = []
    for panel in panels:
        figures: list[tuple[str, str]] = []
        for name, label in panel.figures:
            if name.endswith("/"):
                figures += [
                    (known, replay_label(known.removeprefix(name))) for known in names if known.startswith(name)
                ]
            elif name in names:
                figures.append((name, label))
        if figures:
            found.append(
                Panel(panel.title, figures, panel.logarithmic, panel.percent, panel.stacked, panel.without_zero)
            )
    return found


def replay_panels(history: History) -> list[Panel]:
    """What the replays chose: one chart for each figure of the draws, with a line for each replay."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name in history.names():
        parts = name.split("/")
        if parts[0] == "replays" and len(parts) == 3:
            found.setdefault(parts[2], []).append((name, replay_label(parts[1])))
    ages = Panel("Age of drawn unrolls, updates", found.get("age_mean", ()))
    times = Panel("How often a drawn unroll had been drawn", found.get("times_drawn_mean", ()))
    panels = [ages, times]
    for name, label in found.get("distance_candidates", ()):
        drawn = name.replace("distance_candidates", "distance_drawn")
        panels.append(Panel(f"Distance, {label}", ((drawn, "drawn"), (name, "all candidates"))))
    panels += [
        Panel("Candidates for each drawn unroll (λ)", found.get("lambda", ())),
        Panel("Divergence of policies on drawn unrolls", (("kl_fresh", "fresh"), ("kl_replayed", "replayed")), True),
        Panel("Unrolls in each replay", found.get("size", ())),
        Panel("Time for drawing, share of the total", (("replay_time_shares/", ""),), percent=True),
    ]
    return shown_panels(panels, history)


def replay_label(key: str) -> str:
    """`1_elite` as `elite (replay 2)`, because reports count from 0; anything else as it is."""
    place, _, kind = key.partition("_")
    return f"{kind} (replay {int(place) + 1})" if kind and place.isdigit() else key


def panel_chart(panel: Panel, history: History, x: str, log_y: bool, log_x: bool) -> ChartOptions:
    """The options of the chart of one panel."""
    axis = X_AXES[x]
    lines = []
    for index, (name, label) in enumerate(panel.figures):
        curve = history.curve(name, axis.figure)
        if panel.without_zero and not curve.y.any():
            continue
        colour = LINES[index % len(LINES)]
        lines.append(Line(label, curve.x / axis.unit, curve.y, colour))
    return line_chart(
        lines,
        x_label=axis.label,
        logarithmic=(panel.logarithmic or log_y) and not panel.stacked,
        log_x=log_x,
        percent=panel.percent,
        stacked=panel.stacked,
    )


def return_chart(history: History, x: str, log_y: bool, log_x: bool) -> ChartOptions:
    """Every game as a dot, the moving mean as a line, and the evaluations."""
    axis = X_AXES[x]
    games = _games_over(history, axis)
    window = history.return_window
    means = history.curve("return_mean", axis.figure)
    tested = history.curve("eval_return_mean", axis.figure)
    lines = []
    if len(games.x):
        lines.append(Line("each game", games.x / axis.unit, games.y, LINES[5], dots=True))
    if len(means.x):
        lines.append(Line(f"mean of the last {window} games", means.x / axis.unit, means.y, LINES[0]))
    if len(tested.x):
        lines.append(Line("test games, mean", tested.x / axis.unit, tested.y, LINES[4]))
    return line_chart(lines, x_label=axis.label, logarithmic=log_y, log_x=log_x)


def _games_over(history: History, axis: XAxis) -> Curve:
    """Games have only agent steps; other units are interpolated between the reports."""
    steps = history.curve(axis.figure, "agent_steps")
    if axis.figure == "agent_steps" or not len(steps.x):
        return history.games
    order = np.argsort(steps.x, kind="stable")
    xs: Numbers = np.interp(history.games.x, steps.x[order], steps.y[order], left=np.nan, right=np.nan)
    before = history.games.x < steps.x[order][0]  # games that ended before the first report
    xs[before] = history.games.x[before] * (steps.y[order][0] / max(1.0, steps.x[order][0]))
    known = ~np.isnan(xs)
    return Curve(xs[known], history.games.y[known])
