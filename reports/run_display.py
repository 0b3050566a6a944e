"""The state of a training, as a live display and as one line. A display is made of cards of facts, side by side."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from reports.number_format import VALUE_WIDTH, count, duration, number, percent
from run_files.metrics import JsonValue, Report

ACCENT, ALERT, DIM = "cyan", "yellow", "dim"
GAP = 2  # columns between two cards
LABEL_WIDTH, CARD_WIDTH = 9, 25  # of the longest label; of a card
MOST_COLUMNS = 3  # of cards
CURVE_HEIGHT = 3  # lines
BLOCKS = " ▁▂▃▄▅▆▇█"


class Fact(NamedTuple):
    """One line of a card."""

    label: str
    value: str
    note: str = ""
    style: str = ""


Card = tuple[str, Sequence[Fact]]  # a title, and the lines below it


class ReplayFill(NamedTuple):
    """How full one replay is. All numbers are unrolls."""

    name: str
    fill: int
    capacity: int
    share: int  # unrolls in each batch
    needed: int = 0  # fill at which learning starts; 0 for a replay that learning does not wait for


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a run: the figures that a report would have now, and what no report has."""

    figures: Report  # by their names in metrics.jsonl
    max_steps: int
    planned_updates: int
    return_window: int  # games that the mean return covers, at most
    return_last: float | None
    speed: float  # agent steps a second in the latest seconds
    frames_per_step: float  # in this run; the runs that it was resumed from may differ
    replays: Sequence[ReplayFill]
    is_warming_up: bool  # the replays do not hold enough to learn from yet
    workers_alive: int
    worker_count: int
    starting: bool  # no unroll was received yet

    def __getitem__(self, name: str) -> float | None:
        """A figure such as `value_loss` or `time_shares/update`; None stands for a number that does not exist yet."""
        value: JsonValue = self.figures
        for key in name.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, int | float) else None

    @property
    def steps(self) -> float:
        return self["agent_steps"] or 0

    @property
    def done(self) -> float:
        return min(1.0, self.steps / max(1, self.max_steps))

    @property
    def seconds_left(self) -> float | None:
        return max(0, self.max_steps - self.steps) / self.speed if self.speed > 0 else None

    @property
    def filled(self) -> float:
        """Progress of the warm-up: the fill of the least filled replay, as a fraction of what learning needs."""
        return min((min(1.0, replay.fill / replay.needed) for replay in self.replays if replay.needed), default=1.0)

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """The figures of the other machines of a cluster that play now."""
        nodes = cast(Sequence[Mapping[str, Any]], self.figures.get("nodes") or ())
        return [node for node in nodes if node["alive"]]

    @property
    def trend_value(self) -> float | None:
        return self["return_mean"]

    def view(self, width: int, trend: Sequence[float]) -> RenderableType:
        """The live display in `width` columns; `trend` is the history of the mean return."""
        if self.starting:
            return Group("", progress_line(self.done), self.line())
        below = [*_curve(trend, width), *_replays(self, width), *_environment(self)]
        return Group("", progress_line(self.done), card_grid(_cards(self), width), *below)

    def line(self) -> str:
        """The most important figures in one line."""
        if self.starting and not self.worker_count:
            return "waiting for other nodes of the cluster"
        if self.starting:
            return f"starting workers, {self.workers_alive} of {self.worker_count} running"
        pairs = {
            f"done {self.done:.1%}": 11,
            f"steps {count(self.steps)}": 12,
            f"frames {count(self['frames'])}": 13,
            f"speed {count(self.speed)}/s": 14,
            f"time {duration(self['seconds'])}": 11,
            f"left {duration(self.seconds_left)}": 11,
            f"games {count(self['episodes'])}": 12,
            f"return {number(self['return_mean'])}": 14,
            f"best {number(self['return_max'])}": 12,
            f"filled {self.filled:.0%}" if self.is_warming_up else f"entropy {number(self['entropy'])}": 14,
            f"wait {percent(self['learner_wait_fraction'])}": 9,
            f"workers {self.workers_alive}/{self.worker_count}": 12,
        }
        if self.nodes:
            pairs[f"nodes {len(self.nodes)}"] = 9
        if "idle_share" in self.figures:
            pairs |= {f"age {number(self['action_age_mean'])}": 9, f"idle {percent(self['idle_share'], 1)}": 10}
        if "missed_share" in self.figures:
            pairs[f"late {percent(self['missed_share'], 1)}"] = 10
        return in_columns(pairs)


def in_columns(texts: Mapping[str, int]) -> str:
    """One line of texts, each with the width of its column; columns are two or more spaces apart."""
    return "  ".join(text.ljust(width) for text, width in texts.items()).rstrip()


def _cards(status: Status) -> list[Card]:
    def fact(label: str, figure: str, shown: Callable[[float | None], str] = number, note: str = "") -> Fact:
        return Fact(label, shown(status[figure]), note)

    progress = [
        fact("steps", "agent_steps", count, f"of {count(status.max_steps, 10_000)}"),
        fact("frames", "frames", count),
        fact("updates", "updates", count, f"of {count(status.planned_updates, 10_000)}"),
        fact("games", "episodes", count),
    ]
    speed = [
        Fact("steps/s", count(status.speed)),
        Fact("frames/s", count(status.speed * status.frames_per_step)),
        fact("elapsed", "seconds", duration),
        Fact("left", duration(status.seconds_left)),
    ]
    returns = [
        Fact("mean", number(status["return_mean"]), f"last {count(status.return_window)}", f"bold {ACCENT}"),
        Fact("last", number(status.return_last)),
        fact("best", "return_max"),
    ]
    losses = [
        fact("policy", "policy_loss"),
        fact("value", "value_loss"),
        fact("entropy", "entropy"),
        fact("gradient", "gradient_norm", note="norm"),
    ]
    if status["clipped_share"] is not None:
        losses.append(fact("clipped", "clipped_share", percent, "states"))
    learner = [
        fact("lag", "policy_lag_mean", note="updates"),
        fact("lr", "learning_rate"),
        fact("waiting", "learner_wait_fraction", percent, "of time"),
        fact("CPU", "cpu_learner", in_percent),
    ]
    if status["gpu_utilization"] is not None:
        learner.append(fact("GPU", "gpu_utilization", in_percent))
    all_run = status.workers_alive == status.worker_count
    memory = (status["memory_learner_mb"] or 0) + (status["memory_workers_mb"] or 0)
    workers = [
        Fact("running", f"{status.workers_alive}/{status.worker_count}", style="" if all_run else ALERT),
        Fact("restarts", count(status["worker_restarts"]), style=ALERT if status["worker_restarts"] else ""),
        fact("in games", "worker_time_shares/environment", percent, "of time"),
        fact("CPU", "cpu_workers", in_percent),
        Fact("memory", count(memory), "MB"),
    ]
    warm_up = [Fact("filled", percent(status.filled)), Fact("learning starts at 100%", "")]
    cards: list[Card] = [("progress", progress), ("speed and time", speed), ("returns", returns)]
    cards.append(("warm-up", warm_up) if status.is_warming_up else ("losses", losses))
    cards += [("learner", learner), ("workers", workers)]
    if status.nodes:
        playing = [
            Fact("playing", count(len(status.nodes))),
            Fact("workers", count(sum(node["workers"] for node in status.nodes))),
            Fact("steps/s", count(sum(node["steps_per_second"] or 0 for node in status.nodes))),
        ]
        cards.append(("other nodes", playing))
    if "idle_share" in status.figures:  # a game that does not wait for actions
        actions = [
            fact("every", "action_interval_mean", note="frames"),
            fact("age", "action_age_mean", note="frames"),
            fact("age 95%", "action_age_95", count, "frames"),
            fact("oldest", "action_age_max", count, "frames"),
            Fact("idle", percent(status["idle_share"], 1), "of time"),
        ]
        cards.append(("actions", actions))
    if "missed_share" in status.figures:  # and is played by the clock
        clock = [
            Fact("late", percent(status["missed_share"], 1), "frames"),
            fact("inference", "inference_ms_mean", note="ms"),
            fact("slowest", "inference_ms_max", note="ms"),
            fact("processes", "needed_processes_mean", note="needed"),
            fact("unrolls", "dropped_unrolls", count, "dropped"),
        ]
        cards.append(("clock", clock))
    return cards


def in_percent(value: float | None) -> str:
    return percent(None if value is None else value / 100)


def _curve(trend: Sequence[float], width: int) -> list[RenderableType]:
    """The curve of the mean return since the start, with its lowest and highest value."""
    rows = sparkline(trend, width - VALUE_WIDTH - 1, CURVE_HEIGHT)
    limits = [""] * CURVE_HEIGHT
    if trend:
        limits[0], limits[-1] = number(max(trend)), number(min(trend))
    lines = [
        Text.assemble((limit.rjust(VALUE_WIDTH) + " ", DIM), (row, ACCENT), no_wrap=True)
        for limit, row in zip(limits, rows, strict=True)
    ]
    return [heading("mean return since the start"), *lines]


def _replays(status: Status, width: int) -> list[RenderableType]:
    """A line for each replay: how full it is, as a bar and in unrolls, and its share of each batch."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "left", "left"):
        grid.add_column(no_wrap=True, justify=justify)
    for name, fill, capacity, share, _needed in status.replays:
        full = bar(fill / max(1, capacity), max(5, min(32, width - 50)))
        of, batch = Text(f"of {count(capacity)}", DIM), Text(f"{share} in each batch", DIM)
        grid.add_row(Text(name, DIM), full, count(fill), of, batch)
    return [heading("replays"), grid]


def _environment(status: Status) -> list[RenderableType]:
    """What the environment tells in its `info`, in one line; nothing where it tells nothing."""
    told = status.figures.get("environment")
    if not isinstance(told, Mapping) or not told:
        return []
    facts = [Text.assemble((f"{name} ", DIM), number(status[f"environment/{name}"])) for name in told]
    return [heading("environment"), Text("  ", no_wrap=True, overflow="ellipsis").join(facts)]


# --- What displays are made of ----------------------------------------------------------------------------------------


def card_grid(cards: Sequence[Card], width: int) -> Table:
    """All cards, as many of them side by side as fit into `width` characters."""
    columns = max(1, min(MOST_COLUMNS, (width + GAP) // (CARD_WIDTH + GAP)))
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for _ in range(columns):
        grid.add_column(width=(width + GAP) // columns - GAP, no_wrap=True, overflow="crop")
    drawn = [Group(heading(title), *map(_fact_line, facts)) for title, facts in cards]
    for first in range(0, len(cards), columns):
        grid.add_row(*drawn[first : first + columns])
    return grid


def _fact_line(fact: Fact) -> Text:
    label, value = fact.label.ljust(LABEL_WIDTH), fact.value.rjust(VALUE_WIDTH)
    return Text.assemble((label, DIM), (value, fact.style), (f" {fact.note}", DIM))


def heading(title: str) -> Rule:
    """A title and a line that fills the rest of the width."""
    return Rule(Text(title, "bold"), align="left", style=DIM)


def bar(fraction: float, width: int | None = None) -> ProgressBar:
    return ProgressBar(1.0, min(1.0, fraction), width, complete_style=ACCENT, finished_style=ACCENT)


def progress_line(done: float) -> Table:
    """A bar over the whole width, then the percentage."""
    grid = Table.grid(expand=True, padding=(0, 0, 0, 1))
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True)
    grid.add_row(bar(done), f"{done:6.1%}")
    return grid


def sparkline(values: Sequence[float], width: int, height: int = 1) -> list[str]:
    """The values as a curve of block characters, `height` lines, the highest value at the top."""
    if not values or width <= 0:
        return [""] * height
    if len(values) > width:
        edges = [i * len(values) // width for i in range(width + 1)]
        values = [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(values), max(values)
    top = 8 * height - 1
    filled = [1 + round(top * (value - low) / (high - low)) if high > low else 1 for value in values]
    return ["".join(BLOCKS[max(0, min(8, level - 8 * row))] for level in filled) for row in reversed(range(height))]
