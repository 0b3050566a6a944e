"""What the charts of a run show, in curves.png and in the dashboard: panels, x axes and colours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from options.learning_options import LOSS_TERMS
from run_files.run_reader import Curve, History, Series

# Okabe and Ito's colours, which colour-blind readers can distinguish too; the most different ones first. Each can be
# seen on white and on nearly black.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C6D1F", "#7D838C")
GAMES, MEAN, TESTED = COLOURS[5], COLOURS[0], COLOURS[4]  # of the returns
DASH, GAP = 3.0, 1.2  # in widths of the line
AGES = "Age of drawn unrolls, updates"
TERMS = tuple((name, name.removesuffix("_loss").replace("_", " ")) for name in LOSS_TERMS)
MINUTES_BELOW = 2 * 3600  # seconds; the time axis of a longer run is in hours


@dataclass(frozen=True)
class Line:
    """One line of a chart, or dots; how it looks, before it has points. Between `low` and `high` it is filled."""

    label: str
    x: Series
    y: Series
    colour: str
    dots: bool = False
    dashes: Sequence[float] = ()  # lengths that are drawn and left out in turn; empty for a solid line
    low: Series | None = None
    high: Series | None = None
    seeds: Sequence[Curve] = ()  # the curves that a mean is made of
    is_grey: bool = False  # in the background, and without a band


class XAxis(NamedTuple):
    """A choice for the x axis: the figure of the reports, its units in one unit of the axis, and its label."""

    figure: str
    unit: float
    label: str

    def curve(self, history: History, figure: str, window: int = 1) -> Curve:
        """A figure of a run over this axis, each value the mean of so many latest ones."""
        found = history.curve(figure, self.figure)
        order = np.argsort(found.x, kind="stable")
        return Curve(found.x[order] / self.unit, smoothed(found.y[order], window))


X_AXES: Mapping[str, XAxis] = {
    "steps": XAxis("agent_steps", 1, "agent steps"),
    "frames": XAxis("frames", 1, "frames"),
    "minutes": XAxis("seconds", 60, "minutes"),
    "hours": XAxis("seconds", 3600, "hours"),
}


def smoothed(values: Series, window: int) -> Series:
    """Running mean of the last `window` values; of fewer values at the beginning."""
    if window <= 1 or not len(values):
        return values
    window = min(window, len(values))  # a larger one may be more than a machine number holds
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: Series = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def time_axis(seconds: float) -> XAxis:
    """The axis for a run that has taken so long."""
    return X_AXES["minutes" if seconds < MINUTES_BELOW else "hours"]


@dataclass(frozen=True)
class Panel:
    """One chart: its figures by flat name, with their labels.

    A name with a `*` stands for all that fit, labelled by what is in its place.
    """

    title: str
    figures: Sequence[tuple[str, str]]
    logarithmic: bool = False
    percent: bool = False
    stacked: bool = False
    from_zero: bool = False  # the axis begins at 0
    without_zero: bool = False  # leave out figures that are always 0, such as switched-off losses

    def lines(self, curve: Callable[[str], Curve]) -> list[Line]:
        """A line for each figure that is known; `curve` gives the points of a figure."""
        found = [Line(label, *curve(name), colour_of(i)) for i, (name, label) in enumerate(self.figures)]
        return [line for line in found if len(line.x) and not (self.without_zero and not line.y.any())]


LEARNING = (
    Panel("Terms of the loss", TERMS, without_zero=True),
    Panel("Entropy of the policy, nats", (("entropy", ""),)),
    Panel("Spread of the policy over states", (("policy_spread", ""),)),
    Panel("Norm of the gradient", (("gradient_norm", ""),)),
    Panel("Policy lag, updates", (("policy_lag_mean", "mean"), ("policy_lag_max", "oldest")), from_zero=True),
    Panel("KL divergence, acting to present policy", (("kl_fresh", "fresh"), ("kl_replayed", "replayed")), True),
    Panel("KL divergence, target to present policy", (("kl_target", ""),), True),
    Panel("Share of states that are clipped", (("clipped_share", ""),), percent=True, from_zero=True),
    Panel("Importance weight π/μ", (("ratio_fresh", "fresh"), ("ratio_replayed", "replayed"))),
    Panel("Steps with held actions", (("held_share", ""),), percent=True, from_zero=True, without_zero=True),
    Panel("Mean value estimate", (("value_mean", ""),)),
    Panel("Learning rate", (("learning_rate", ""),)),
    Panel("Ratio to the target policy", (("ratio_target", ""),)),
    Panel("What the environment tells", (("environment/*", ""),)),
)
TIMING = (  # of games that do not wait
    Panel(
        "Age of the screens behind actions, frames",
        (("action_age_mean", "mean"), ("action_age_95", "95%"), ("action_age_max", "maximum")),
        from_zero=True,
    ),
    Panel("Interval between actions, frames", (("action_interval_*", ""),), from_zero=True),
    Panel(
        "Share of frames, idle or late",
        (("idle_share", "idle"), ("missed_share", "late")),
        percent=True,
        from_zero=True,
    ),
    Panel("Inference time, ms", (("inference_ms_*", ""),), from_zero=True),
    Panel("Inference processes that are needed", (("needed_processes_*", ""),), from_zero=True),
    Panel("Updates a second", (("updates_per_second", ""),), from_zero=True),
    Panel("Core-seconds for 1,000 frames", (("core_seconds_per_1000_frames", ""),), from_zero=True),
)
SPEED = Panel("Speed, agent steps per second", (("steps_per_second", ""),), from_zero=True)
LEARNER_TIME = Panel("Time of the learner", (("time_shares/*", ""),), percent=True, stacked=True)
MACHINE = (
    SPEED,
    LEARNER_TIME,
    Panel("Time of the workers", (("worker_time_shares/*", ""),), percent=True, stacked=True),
    Panel("CPU, percent of one core", (("cpu_learner", "learner"), ("cpu_workers", "all workers")), from_zero=True),
    Panel("Memory, MB", (("memory_learner_mb", "learner"), ("memory_workers_mb", "workers")), from_zero=True),
    Panel("GPU, percent", (("gpu_utilization", ""),), from_zero=True),
    Panel("GPU memory, MB", (("gpu_memory_mb", ""),), from_zero=True),
    Panel("Rounds of unrolls in flight", (("rounds_under_way", ""),), from_zero=True),
    Panel("Replaced workers", (("worker_restarts", ""),), without_zero=True),
)


REPLAYS = (
    Panel(AGES, (("replays/*/age_mean", ""),), from_zero=True),
    Panel("How often a drawn unroll had been drawn", (("replays/*/times_drawn_mean", ""),), from_zero=True),
    Panel("Distance", (("replays/*/distance_drawn", "drawn"), ("replays/*/distance_candidates", "all candidates"))),
    Panel("Candidates for each drawn unroll (λ)", (("replays/*/lambda", ""),)),
    Panel("Divergence of policies on drawn unrolls", (("kl_fresh", "fresh"), ("kl_replayed", "replayed")), True),
    Panel("Unrolls in each replay", (("replays/*/size", ""),), from_zero=True),
    Panel("Time for drawing, share of the total", (("replay_time_shares/*", ""),), percent=True, from_zero=True),
)


def return_lines(history: History, axis: XAxis, smooth: int = 1) -> list[Line]:
    """The return of every game as a dot, their moving mean, and the evaluations."""
    games = _games_over(history, axis.figure)
    lines = [
        Line("each game", games.x / axis.unit, games.y, GAMES, dots=True),
        Line(f"mean of the last {history.return_window} games", *axis.curve(history, "return_mean", smooth), MEAN),
        Line("test games, mean", *axis.curve(history, "eval_return_mean", smooth), TESTED),
    ]
    return [line for line in lines if len(line.x)]


def _games_over(history: History, figure: str) -> Curve:
    """Games have only agent steps; other units are interpolated between the reports."""
    if figure == "agent_steps" or not len(history.curve(figure).x):
        return history.games
    xs = history.at(history.games.x, figure)
    return Curve(xs[~np.isnan(xs)], history.games.y[~np.isnan(xs)])


def learning_panels(history: History) -> list[Panel]:
    """What a run learns, and how a game that does not wait was played."""
    names = history.names()
    return shown(LEARNING, names) + (shown(TIMING, names) if "idle_share" in names else [])


def machine_panels(history: History) -> list[Panel]:
    return shown(MACHINE, history.names())


def replay_panels(history: History) -> list[Panel]:
    """What the replays chose: one chart for each figure of the draws, with a line for each replay."""
    return shown(REPLAYS, history.names())


def page_panels(history: History) -> list[Panel]:
    """Those of curves.png: what is learned, the ages of replayed unrolls, speed and time."""
    # Unrolls of a queue are new ones.
    ages = [panel for panel in replay_panels(history) if panel.title == AGES]
    ages = [panel for panel in ages if any("queue" not in name for name, _ in panel.figures)]
    panels = learning_panels(history) + ages + shown((SPEED, LEARNER_TIME), history.names())
    return [panel for panel in panels if panel.lines(history.curve)]


def shown(panels: Sequence[Panel], names: Sequence[str]) -> list[Panel]:
    """The panels that have any of these figures, with the names of their figures written out."""
    found = []
    for panel in panels:
        figures: list[tuple[str, str]] = []
        for pattern, label in panel.figures:
            begin, star, end = pattern.partition("*")
            for name in names:
                if not star and name == pattern:
                    figures.append((name, label))
                elif star and name.startswith(begin) and name.endswith(end):
                    own = replay_label(name[len(begin) : len(name) - len(end)])
                    figures.append((name, f"{own}, {label}" if label else own))
        if figures:
            found.append(replace(panel, figures=figures))
    return found


def replay_label(key: str) -> str:
    """`1_elite` as `elite (replay 2)`, because reports count from 0; anything else as it is."""
    place, _, kind = key.partition("_")
    return f"{kind} (replay {int(place) + 1})" if kind and place.isdigit() else key


def colour_of(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def dashes(place: int) -> tuple[float, ...]:
    """How a picture's line at this place is interrupted: lengths that are drawn and left out in turn.

    Empty for the first lines, which are solid. Then the colours begin again with dashes, longer each time.
    """
    return (DASH * (place // len(COLOURS)), GAP) if place >= len(COLOURS) else ()
