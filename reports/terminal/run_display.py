"""The state of a training, as a live display and as one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from reports.number_format import VALUE_WIDTH, count, decimal, duration, key_values, percent, scientific, score
from reports.terminal.cards import (
    ACCENT,
    ALERT,
    DIM,
    Card,
    Fact,
    bar,
    card_row,
    card_rows,
    card_width,
    column_count,
    heading,
    progress_line,
    sparkline,
)
from reports.terminal.extra_rows import Node, Timing, info_rows, node_rows, node_text, timing_rows, timing_text
from run_files.metrics import JsonValue, Report

MAX_COLUMNS = 4  # of cards; only then does the mean return get a card with its curve
WIDE = 72  # characters; narrower displays abbreviate words
CARD_HEIGHT = 6  # lines of the highest card
NO_NODES = "waiting for other nodes of the cluster…"


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

    def total(self, name: str) -> float:
        """A figure that exists from the start, or counts from 0."""
        return self[name] or 0

    @property
    def done(self) -> float:
        return min(1.0, self.total("agent_steps") / max(1, self.max_steps))

    @property
    def seconds_left(self) -> float | None:
        return max(0, self.max_steps - self.total("agent_steps")) / self.speed if self.speed > 0 else None

    @property
    def filled(self) -> float:
        """Progress of the warm-up: the fill of the least filled replay, as a fraction of what learning needs."""
        return min((min(1.0, replay.fill / replay.needed) for replay in self.replays if replay.needed), default=1.0)

    @property
    def timing(self) -> Timing:
        """The figures of a game that does not wait; none for one that does."""
        return {name: self[name] for name in self.figures} if "idle_share" in self.figures else {}

    @property
    def told(self) -> Sequence[str]:
        """The names of what the environment tells in its `info`."""
        told = self.figures.get("environment")
        return list(told) if isinstance(told, Mapping) else ()

    @property
    def nodes(self) -> Sequence[Node]:
        """The other machines of a cluster."""
        nodes = self.figures.get("nodes")
        return cast(Sequence[Node], nodes) if isinstance(nodes, Sequence) else ()

    @property
    def trend_value(self) -> float | None:
        return self["return_mean"]

    def view(self, width: int, height: int, trend: Sequence[float]) -> RenderableType:
        """The live display in `width` columns and `height` lines; `trend` is the history of the mean return."""
        if self.starting:
            running = (f" {self.workers_alive} of {self.worker_count} running", DIM)
            text = Text.assemble("starting workers…", running) if self.worker_count else Text(NO_NODES)
            return Group("", progress_line(self.done), text)
        columns = column_count(width)
        width = card_width(width, columns, columns)  # without the characters that remain at the right of the cards
        rows = _cards(self, width, columns, trend)
        told = info_rows({name: self[f"environment/{name}"] for name in self.told})
        below = [*_replays(self, width), *told, *timing_rows(self.timing), *node_rows(self.nodes)]
        needed = 2 + len(rows) * (CARD_HEIGHT + 1) + len(below) + len(self.replays) + len(self.nodes)
        blank = [Text()] if needed <= height else []
        spaced: list[RenderableType] = []
        for row in rows:
            spaced += [*blank, row]
        return Constrain(Group("", progress_line(self.done), *spaced, *blank, *below), width)

    def line(self) -> str:
        return plain_line(self)


def plain_line(status: Status) -> str:
    """The most important figures in one line."""
    return key_values(
        [
            (f"done {status.done:.1%}", 11),
            (f"steps {count(status.total('agent_steps'))}", 12),
            (f"frames {count(status.total('frames'))}", 13),
            (f"speed {count(status.speed)}/s", 14),
            (f"time {duration(status['seconds'])}", 11),
            (f"left {duration(status.seconds_left)}", 11),
            (f"games {count(status.total('episodes'))}", 12),
            (f"return {score(status['return_mean'])}", 14),
            (f"best {score(status['return_max'])}", 12),
            (f"filled {status.filled:.0%}" if status.is_warming_up else f"entropy {decimal(status['entropy'])}", 14),
            (f"wait {status.total('learner_wait_fraction'):.0%}", 9),
            (
                f"workers {status.workers_alive}/{status.worker_count}",
                12 if status.timing or status.nodes else 0,
            ),
            *([(node_text(status.nodes), 0)] if status.nodes else []),
            *([(timing_text(status.timing), 0)] if status.timing else []),
        ]
    )


def _cards(status: Status, width: int, columns: int, trend: Sequence[float]) -> list[Table]:
    """The rows of cards."""
    first = [_progress(status), _speed(status), _returns(status)]
    last = [_warm_up(status, width, columns) if status.is_warming_up else _losses(status), _learner(status)]
    if columns < MAX_COLUMNS:
        curve = Text.assemble(("trend    ", DIM), (sparkline(trend, card_width(width, columns) - 9)[0], ACCENT))
        first[-1] = first[-1]._replace(lines=[*first[-1].lines, curve])
        return card_rows([*first, *last, _workers(status)], width, columns)
    single, double = card_width(width, columns), card_width(width, columns, 2)
    return [
        card_row([*first, last[0]], [single] * columns),
        card_row([last[1], _workers(status), _curve(trend, double)], [single, single, double]),
    ]


def _progress(status: Status) -> Card:
    facts = [
        Fact("steps", count(status.total("agent_steps")), f"of {count(status.max_steps, 10_000)}"),
        Fact("frames", count(status.total("frames"))),
        Fact("updates", count(status.total("updates")), f"of {count(status.planned_updates, 10_000)}"),
        Fact("games", count(status.total("episodes"))),
    ]
    return Card("progress", facts)


def _speed(status: Status) -> Card:
    facts = [
        Fact("steps/s", count(status.speed)),
        Fact("frames/s", count(status.speed * status.frames_per_step)),
        Fact("elapsed", duration(status["seconds"])),
        Fact("left", duration(status.seconds_left)),
    ]
    return Card("speed and time", facts)


def _returns(status: Status) -> Card:
    facts = [
        Fact("mean", score(status["return_mean"]), f"last {count(status.return_window)}", f"bold {ACCENT}"),
        Fact("last", score(status.return_last)),
        Fact("best", score(status["return_max"])),
    ]
    return Card("returns", facts)


def _curve(trend: Sequence[float], width: int) -> Card:
    """The curve of the mean return since the start, with its lowest and highest value."""
    rows = sparkline(trend, width - VALUE_WIDTH - 1, 5)
    limits = [score(max(trend)), "", "", "", score(min(trend))] if trend else [""] * 5
    lines = [
        Text.assemble((limit.rjust(VALUE_WIDTH) + " ", DIM), (row, ACCENT))
        for limit, row in zip(limits, rows, strict=True)
    ]
    return Card("mean return since the start", lines)


def _warm_up(status: Status, width: int, columns: int) -> Card:
    inner = card_width(width, columns)
    full = int(status.filled * inner)
    line = Text.assemble(("━" * full, ACCENT), ("─" * (inner - full), DIM))
    return Card(
        "warm-up", [Fact("filled", percent(status.filled)), line, Text("learning starts at", DIM), Text("100%", DIM)]
    )


def _losses(status: Status) -> Card:
    facts = [
        Fact("policy", decimal(status["policy_loss"])),
        Fact("value", decimal(status["value_loss"])),
        Fact("entropy", decimal(status["entropy"])),
        Fact("gradient", decimal(status["gradient_norm"]), "norm"),
    ]
    if status["clipped_share"] is not None:
        facts.append(Fact("clipped", percent(status["clipped_share"]), "of states"))
    return Card("losses", facts)


def _learner(status: Status) -> Card:
    facts = [
        Fact("lag", decimal(status["policy_lag_mean"], 1), "updates"),
        Fact("lr", scientific(status["learning_rate"])),
        Fact("waiting", percent(status["learner_wait_fraction"]), "of time"),
        Fact("CPU", f"{status.total('cpu_learner'):.0f}%"),
    ]
    if (gpu := status["gpu_utilization"]) is not None:
        facts.append(Fact("GPU", f"{gpu:.0f}%"))
    return Card("learner", facts)


def _workers(status: Status) -> Card:
    all_alive = status.workers_alive == status.worker_count
    restarts = status.total("worker_restarts")
    memory = status.total("memory_learner_mb") + status.total("memory_workers_mb")
    facts = [
        Fact("running", f"{status.workers_alive}/{status.worker_count}", style="" if all_alive else ALERT),
        Fact("restarts", count(restarts), style=ALERT if restarts else ""),
        Fact("in games", percent(status["worker_time_shares/environment"]), "of time"),
        Fact("CPU", f"{status.total('cpu_workers'):.0f}%"),
        Fact("memory", count(memory), "MB"),
    ]
    return Card("workers", facts)


def _replays(status: Status, width: int) -> list[RenderableType]:
    """A line for each replay: how full it is, as a bar and in unrolls, and its share of each batch."""
    grid = Table.grid(padding=(0, 2 if width >= WIDE else 1, 0, 0))
    for justify in ("left", "left", "right", "left", "left"):
        grid.add_column(no_wrap=True, justify=justify)
    bar_width = max(5, min(32, width - (50 if width >= WIDE else 34)))
    for name, fill, capacity, share, _needed in status.replays:
        batch = " in each batch" if width >= WIDE else "/batch"
        full = bar(fill / max(1, capacity), bar_width)
        grid.add_row(
            Text(name, DIM), full, count(fill), Text(f"of {count(capacity)}", DIM), Text(f"{share}{batch}", DIM)
        )
    return [heading("replays"), grid]
