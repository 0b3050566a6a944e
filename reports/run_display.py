"""The state of a run or of a test, as one line and as a live display, which is made of cards of facts, side by side.

What is shown is in the tables below, where `{agent_steps}` stands for a figure by its name in metrics.jsonl.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text

from reports.number_format import VALUE_WIDTH, count, formatted, number
from run_files.metrics import JsonValue, Report

ACCENT, ALERT, DIM = "cyan", "yellow", "dim"
GAP = 2  # columns between two cards
LABEL_WIDTH, CARD_WIDTH = 9, 25  # of the longest label; of a card
MOST_COLUMNS = 3  # of cards
CURVE_HEIGHT = 3  # lines
BLOCKS = " ▁▂▃▄▅▆▇█"

Cards: TypeAlias = Mapping[str, Sequence[tuple[str, str, str]]]  # by title: a label, a value and a note in each line
CARDS: Cards = {
    "progress": (
        ("steps", "{agent_steps}", "of {max_steps}"),
        ("frames", "{frames}", ""),
        ("updates", "{updates}", "of {planned_updates}"),
        ("games", "{episodes}", ""),
    ),
    "speed and time": (
        ("steps/s", "{speed}", ""),
        ("frames/s", "{frames_speed}", ""),
        ("elapsed", "{seconds}", ""),
        ("left", "{seconds_left}", ""),
    ),
    "returns": (
        ("mean", "{return_mean}", "last {return_window}"),
        ("last", "{return_last}", ""),
        ("best", "{return_max}", ""),
    ),
    "warm-up": (("filled", "{filled}", ""), ("learning starts at 100%", "", "")),
    "losses": (
        ("policy", "{policy_loss}", ""),
        ("value", "{value_loss}", ""),
        ("entropy", "{entropy}", ""),
        ("gradient", "{gradient_norm}", "norm"),
        ("clipped", "{clipped_share}", "states"),
    ),
    "learner": (
        ("lag", "{policy_lag_mean}", "updates"),
        ("lr", "{learning_rate}", ""),
        ("waiting", "{learner_wait_fraction}", "of time"),
        ("CPU", "{cpu_learner}", ""),
        ("GPU", "{gpu_utilization}", ""),
    ),
    "workers": (
        ("running", "{workers_alive}/{worker_count}", ""),
        ("restarts", "{worker_restarts}", ""),
        ("in games", "{worker_time_shares/environment}", "of time"),
        ("CPU", "{cpu_workers}", ""),
        ("memory", "{memory_mb}", "MB"),
    ),
    "other nodes": (
        ("playing", "{nodes_playing}", ""),
        ("workers", "{nodes_workers}", ""),
        ("steps/s", "{nodes_speed}", ""),
    ),
    "actions": (  # in a game that does not wait for them
        ("every", "{action_interval_mean}", "frames"),
        ("age", "{action_age_mean}", "frames"),
        ("age 95%", "{action_age_95}", "frames"),
        ("oldest", "{action_age_max}", "frames"),
        ("idle", "{idle_share}", "of time"),
    ),
    "clock": (  # by which the game is played
        ("late", "{missed_share}", "frames"),
        ("inference", "{inference_ms_mean}", "ms"),
        ("slowest", "{inference_ms_max}", "ms"),
        ("processes", "{needed_processes_mean}", "needed"),
        ("unrolls", "{dropped_unrolls}", "dropped"),
    ),
}
LINE = {  # with the widths of the columns
    **{
        "done {done}": 11,
        "steps {agent_steps}": 12,
        "frames {frames}": 13,
        "speed {speed}/s": 14,
        "time {seconds}": 11,
    },
    **{"left {seconds_left}": 11, "games {episodes}": 12, "return {return_mean}": 14, "best {return_max}": 12},
    **{"filled {filled}": 14, "entropy {entropy}": 14, "wait {learner_wait_fraction}": 9},
    **{"workers {workers_alive}/{worker_count}": 12, "nodes {nodes_playing}": 9},
    **{"age {action_age_mean}": 9, "idle {idle_share}": 10, "late {missed_share}": 10},
}
ONLY_IF_KNOWN = {"clipped_share", "gpu_utilization", "filled", "nodes_playing"}
UNKNOWN_IN_WARM_UP = {"policy_loss", "entropy"}


class ReplayFill(NamedTuple):
    """How full one replay is. All numbers are unrolls."""

    name: str
    fill: int
    capacity: int
    share: int  # unrolls in each batch
    needed: int = 0  # fill at which learning starts; 0 for a replay that learning does not wait for


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a run, or with other tables that of a test."""

    figures: Report  # those that a report would have now, and what no report has, such as max_steps
    cards: Cards = field(default_factory=lambda: CARDS)
    texts: Mapping[str, int] = field(default_factory=lambda: LINE)  # of the line
    replays: Sequence[ReplayFill] = ()
    is_warming_up: bool = False  # the replays do not hold enough to learn from yet
    starting: bool = False  # no unroll was received yet

    def __getitem__(self, name: str) -> float | None:
        """A figure such as `value_loss` or `time_shares/update`; None stands for a number that does not exist yet."""
        if name in DERIVED and name not in self.figures:
            return DERIVED[name](self)
        value: JsonValue = self.figures
        for key in name.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, int | float) else None

    def known(self, name: str) -> float:
        return self[name] or 0

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """The figures of the other machines of a cluster that play now."""
        nodes = cast(Sequence[Mapping[str, Any]], self.figures.get("nodes") or ())
        return [node for node in nodes if node["alive"]]

    def has(self, text: str) -> bool:
        """Whether this state has the figures of a text, known or not."""
        names = re.findall(r"{(.*?)}", text)
        hidden = UNKNOWN_IN_WARM_UP if self.is_warming_up else set()
        there = [name in DERIVED or name.partition("/")[0] in self.figures for name in names]
        return all(there) and not any(
            name in hidden or (name in ONLY_IF_KNOWN and self[name] is None) for name in names
        )

    def filled_in(self, text: str) -> str:
        return re.sub(r"{(.*?)}", lambda name: formatted(name[1], self[name[1]]), text)

    def view(self, width: int, trend: Sequence[float]) -> RenderableType:
        """The live display in `width` columns; `trend` is the history of the mean return."""
        done = progress_line(self.known("done"))
        if self.starting:
            return Group("", done, self.line())
        below = [*_curve(trend, width), *_replays(self, width), *_environment(self)] if self.replays else []
        return Group("", done, card_grid(self, width), *below)

    def line(self) -> str:
        """The most important figures in one line."""
        if self.starting and not self["worker_count"]:
            return "waiting for other nodes of the cluster"
        if self.starting:
            return self.filled_in("starting workers, {workers_alive} of {worker_count} running")
        texts = [self.filled_in(text).ljust(width) for text, width in self.texts.items() if self.has(text)]
        return "  ".join(texts).rstrip()


def _seconds_left(status: Status) -> float | None:
    steps = max(0, status.known("max_steps") - status.known("agent_steps"))
    return steps / status.known("speed") if status.known("speed") > 0 else None


def _frames_speed(status: Status) -> float | None:
    return None if status["speed"] is None else status.known("speed") * status.known("frames_per_step")


def _filled(status: Status) -> float | None:
    """Progress of the warm-up: the fill of the least filled replay, as a fraction of what learning needs."""
    fills = (min(1.0, replay.fill / replay.needed) for replay in status.replays if replay.needed)
    return min(fills, default=1.0) if status.is_warming_up else None


DERIVED: Mapping[str, Callable[[Status], float | None]] = {
    "done": lambda status: min(1.0, status.known("agent_steps") / max(1, status.known("max_steps"))),
    "seconds_left": _seconds_left,
    "frames_speed": _frames_speed,
    "filled": _filled,
    "memory_mb": lambda status: status.known("memory_learner_mb") + status.known("memory_workers_mb"),
    "nodes_playing": lambda status: len(status.nodes) or None,
    "nodes_workers": lambda status: sum(node["workers"] for node in status.nodes),
    "nodes_speed": lambda status: sum(node["steps_per_second"] or 0 for node in status.nodes),
}


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
    columns = (Column(no_wrap=True, justify=justify) for justify in ("left", "left", "right", "left", "left"))
    grid = Table.grid(*columns, padding=(0, 2, 0, 0))
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


def card_grid(status: Status, width: int) -> Table:
    """The cards of a state, as many of them side by side as fit into `width` characters."""
    columns = max(1, min(MOST_COLUMNS, (width + GAP) // (CARD_WIDTH + GAP)))
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for _ in range(columns):
        grid.add_column(width=(width + GAP) // columns - GAP, no_wrap=True, overflow="crop")
    cards = [
        Group(heading(title), *(_fact(status, *line) for line in lines if status.has(line[1])))
        for title, lines in status.cards.items()
        if status.has(lines[0][1])
    ]
    for first in range(0, len(cards), columns):
        grid.add_row(*cards[first : first + columns])
    return grid


def _fact(status: Status, label: str, value: str, note: str) -> Text:
    """One line of a card."""
    alarming = (label == "running" and status["workers_alive"] != status["worker_count"]) or (
        label == "restarts" and status["worker_restarts"]
    )
    style = f"bold {ACCENT}" if value == "{return_mean}" else ALERT if alarming else ""
    shown, noted = status.filled_in(value).rjust(VALUE_WIDTH), status.filled_in(note)
    return Text.assemble((label.ljust(LABEL_WIDTH), DIM), (shown, style), (f" {noted}", DIM))


def heading(title: str) -> Rule:
    """A title and a line that fills the rest of the width."""
    return Rule(Text(title, "bold"), align="left", style=DIM)


def bar(fraction: float, width: int | None = None) -> ProgressBar:
    return ProgressBar(1.0, min(1.0, fraction), width, complete_style=ACCENT, finished_style=ACCENT)


def progress_line(done: float) -> Table:
    """A bar over the whole width, then the percentage."""
    grid = Table.grid(Column(ratio=1), Column(no_wrap=True), expand=True, padding=(0, 0, 0, 1))
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
