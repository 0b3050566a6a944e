"""The state of a training, as a live display and as one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from reports.cards import ACCENT, ALERT, DIM, Card, Fact, bar, card_grid, heading, progress_line, sparkline
from reports.number_format import (
    VALUE_WIDTH,
    count,
    count_or_nothing,
    decimal,
    duration,
    key_values,
    percent,
    scientific,
    score,
)
from run_files.metrics import JsonValue, Report

CURVE_HEIGHT = 3  # lines

Node = Mapping[str, Any]  # its figures, by their names in metrics.jsonl


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
    def in_turns(self) -> bool:
        """Whether the game waits for actions."""
        return "idle_share" not in self.figures

    @property
    def nodes(self) -> Sequence[Node]:
        """The other machines of a cluster that play now."""
        nodes = cast(Sequence[Node], self.figures.get("nodes") or ())
        return [node for node in nodes if node["alive"]]

    @property
    def trend_value(self) -> float | None:
        return self["return_mean"]

    def view(self, width: int, trend: Sequence[float]) -> RenderableType:
        """The live display in `width` columns; `trend` is the history of the mean return."""
        if self.starting:
            return Group("", progress_line(self.done), self.line())
        cards = [*_progress(self), _warm_up(self) if self.is_warming_up else _losses(self), *_machine(self)]
        if self.nodes:
            cards.append(_nodes(self))
        if not self.in_turns:
            cards += _timing(self)
        below = [*_curve(trend, width), *_replays(self, width), *_environment(self)]
        return Group("", progress_line(self.done), card_grid(cards, width), *below)

    def line(self) -> str:
        """The most important figures in one line."""
        if self.starting and not self.worker_count:
            return "waiting for other nodes of the cluster"
        if self.starting:
            return f"starting workers, {self.workers_alive} of {self.worker_count} running"
        pairs = [
            (f"done {self.done:.1%}", 11),
            (f"steps {count(self.total('agent_steps'))}", 12),
            (f"frames {count(self.total('frames'))}", 13),
            (f"speed {count(self.speed)}/s", 14),
            (f"time {duration(self['seconds'])}", 11),
            (f"left {duration(self.seconds_left)}", 11),
            (f"games {count(self.total('episodes'))}", 12),
            (f"return {score(self['return_mean'])}", 14),
            (f"best {score(self['return_max'])}", 12),
            (f"filled {self.filled:.0%}" if self.is_warming_up else f"entropy {decimal(self['entropy'])}", 14),
            (f"wait {self.total('learner_wait_fraction'):.0%}", 9),
            (f"workers {self.workers_alive}/{self.worker_count}", 12),
        ]
        if self.nodes:
            pairs.append((f"nodes {len(self.nodes)}", 9))
        if not self.in_turns:
            pairs += [(f"age {decimal(self['action_age_mean'], 1)}", 9), (f"idle {percent(self['idle_share'], 1)}", 10)]
        if "missed_share" in self.figures:
            pairs.append((f"late {percent(self['missed_share'], 1)}", 10))
        return key_values(pairs)


def _progress(status: Status) -> list[Card]:
    progress = [
        Fact("steps", count(status.total("agent_steps")), f"of {count(status.max_steps, 10_000)}"),
        Fact("frames", count(status.total("frames"))),
        Fact("updates", count(status.total("updates")), f"of {count(status.planned_updates, 10_000)}"),
        Fact("games", count(status.total("episodes"))),
    ]
    speed = [
        Fact("steps/s", count(status.speed)),
        Fact("frames/s", count(status.speed * status.frames_per_step)),
        Fact("elapsed", duration(status["seconds"])),
        Fact("left", duration(status.seconds_left)),
    ]
    returns = [
        Fact("mean", score(status["return_mean"]), f"last {count(status.return_window)}", f"bold {ACCENT}"),
        Fact("last", score(status.return_last)),
        Fact("best", score(status["return_max"])),
    ]
    return [Card("progress", progress), Card("speed and time", speed), Card("returns", returns)]


def _warm_up(status: Status) -> Card:
    return Card("warm-up", [Fact("filled", percent(status.filled)), Text("learning starts at 100%", DIM)])


def _losses(status: Status) -> Card:
    facts = [
        Fact("policy", decimal(status["policy_loss"])),
        Fact("value", decimal(status["value_loss"])),
        Fact("entropy", decimal(status["entropy"])),
        Fact("gradient", decimal(status["gradient_norm"]), "norm"),
    ]
    if status["clipped_share"] is not None:
        facts.append(Fact("clipped", percent(status["clipped_share"]), "states"))
    return Card("losses", facts)


def _machine(status: Status) -> list[Card]:
    learner = [
        Fact("lag", decimal(status["policy_lag_mean"], 1), "updates"),
        Fact("lr", scientific(status["learning_rate"])),
        Fact("waiting", percent(status["learner_wait_fraction"]), "of time"),
        Fact("CPU", f"{status.total('cpu_learner'):.0f}%"),
    ]
    if (gpu := status["gpu_utilization"]) is not None:
        learner.append(Fact("GPU", f"{gpu:.0f}%"))
    restarts, all_run = status.total("worker_restarts"), status.workers_alive == status.worker_count
    memory = status.total("memory_learner_mb") + status.total("memory_workers_mb")
    workers = [
        Fact("running", f"{status.workers_alive}/{status.worker_count}", style="" if all_run else ALERT),
        Fact("restarts", count(restarts), style=ALERT if restarts else ""),
        Fact("in games", percent(status["worker_time_shares/environment"]), "of time"),
        Fact("CPU", f"{status.total('cpu_workers'):.0f}%"),
        Fact("memory", count(memory), "MB"),
    ]
    return [Card("learner", learner), Card("workers", workers)]


def _nodes(status: Status) -> Card:
    """What the other machines of a cluster play."""
    facts = [
        Fact("playing", count(len(status.nodes))),
        Fact("workers", count(sum(node["workers"] for node in status.nodes))),
        Fact("steps/s", count(sum(node["steps_per_second"] or 0 for node in status.nodes))),
    ]
    return Card("other nodes", facts)


def _timing(status: Status) -> list[Card]:
    """How a game that does not wait is played: by simulated delays or, with more figures, by the clock."""
    actions = [
        Fact("every", decimal(status["action_interval_mean"], 1), "frames"),
        Fact("age", decimal(status["action_age_mean"], 1), "frames"),
        Fact("age 95%", count_or_nothing(status["action_age_95"]), "frames"),
        Fact("oldest", count_or_nothing(status["action_age_max"]), "frames"),
        Fact("idle", percent(status["idle_share"], 1), "of time"),
    ]
    if "missed_share" not in status.figures:
        return [Card("actions", actions)]
    clock = [
        Fact("late", percent(status["missed_share"], 1), "frames"),
        Fact("inference", decimal(status["inference_ms_mean"], 1), "ms"),
        Fact("slowest", decimal(status["inference_ms_max"], 1), "ms"),
        Fact("processes", count_or_nothing(status["needed_processes_mean"]), "needed"),
        Fact("unrolls", count(status.total("dropped_unrolls")), "dropped"),
    ]
    return [Card("actions", actions), Card("clock", clock)]


def _curve(trend: Sequence[float], width: int) -> list[RenderableType]:
    """The curve of the mean return since the start, with its lowest and highest value."""
    rows = sparkline(trend, width - VALUE_WIDTH - 1, CURVE_HEIGHT)
    limits = [""] * CURVE_HEIGHT
    if trend:
        limits[0], limits[-1] = score(max(trend)), score(min(trend))
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
    bar_width = max(5, min(32, width - 50))
    for name, fill, capacity, share, _needed in status.replays:
        full = bar(fill / max(1, capacity), bar_width)
        of, batch = Text(f"of {count(capacity)}", DIM), Text(f"{share} in each batch", DIM)
        grid.add_row(Text(name, DIM), full, count(fill), of, batch)
    return [heading("replays"), grid]


def _environment(status: Status) -> list[RenderableType]:
    """What the environment tells in its `info`, in one line; nothing where it tells nothing."""
    told = status.figures.get("environment")
    if not isinstance(told, Mapping) or not told:
        return []
    facts = [Text.assemble((f"{name} ", DIM), decimal(status[f"environment/{name}"])) for name in told]
    return [heading("environment"), Text("  ", no_wrap=True, overflow="ellipsis").join(facts)]
