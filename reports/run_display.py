"""The state of a run, and how it reads: as a block of lines, or as one line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

LABEL_WIDTH = 8
NARROW_LABEL_WIDTH = 6  # leaves room for two columns of cells on 40
VALUE_WIDTH = 7  # every number below fits, so columns never move
UNIT_WIDTH = 9
CELL_WIDTH = VALUE_WIDTH + 1 + UNIT_WIDTH
BLOCK_WIDTH = LABEL_WIDTH + 4 * CELL_WIDTH

NORMAL, DIM, ACCENT, ALERT = "", "2", "36", "33"
NOTHING_YET = "—"


class ReplayFill(NamedTuple):
    """How full one replay is. All numbers are unrolls."""

    name: str
    fill: int
    capacity: int
    share: int  # of each batch
    needed: int = 0  # the fill at which learning starts; 0 for a replay that does not hold it up


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a run stands. None stands for a number that does not exist yet."""

    agent_steps: int
    max_steps: int
    frames: int
    skipped_frames: int  # of a step today; earlier runs of the lineage may have skipped others
    updates: int
    planned_updates: int
    seconds: float
    steps_per_second: float
    episodes: int
    return_mean: float | None
    return_window: int  # games that it is the mean of, at most
    return_last: float | None
    return_max: float | None
    policy_loss: float | None
    value_loss: float | None
    entropy: float | None
    gradient_norm: float | None
    learning_rate: float | None
    policy_lag_mean: float | None
    replays: Sequence[ReplayFill]
    is_warming_up: bool  # the replays do not hold enough to learn from yet
    learner_wait_fraction: float
    workers_alive: int
    worker_count: int
    worker_restarts: int
    memory_mb: float
    cpu_learner: float  # percent of one core
    cpu_workers: float
    workers_in_games: float | None  # part of the workers' time
    gpu_utilization: float | None  # percent
    starting: bool  # no unroll has come yet

    @property
    def done(self) -> float:
        return min(1.0, self.agent_steps / max(1, self.max_steps))

    @property
    def frames_per_second(self) -> float:
        return self.steps_per_second * self.skipped_frames

    @property
    def seconds_left(self) -> float | None:
        steps_left = max(0, self.max_steps - self.agent_steps)
        return steps_left / self.steps_per_second if self.steps_per_second > 0 else None

    @property
    def filled(self) -> float:
        """How far the replay that learning waits for longest has come."""
        return min((min(1.0, replay.fill / replay.needed) for replay in self.replays if replay.needed), default=1.0)

    def block(self, width: int) -> "list[list[Span]]":
        return live_block(self, width)

    def line(self) -> str:
        return plain_line(self)


class Span(NamedTuple):
    """Some text of one line in one style."""

    text: str
    style: str = NORMAL


class Cell(NamedTuple):
    """A number and what it counts."""

    value: str
    unit: str
    style: str = NORMAL


def live_block(status: Status, width: int) -> list[list[Span]]:
    """The lines of the live display: a progress bar, then rows of cells in columns, wrapped to `width`."""
    blank: list[Span] = []  # sets the block off from what was printed above it
    lines = [blank, progress_bar(status.done, min(width, BLOCK_WIDTH))]
    if status.starting:
        running = f"{status.workers_alive} of {status.worker_count} running"
        return [*lines, [Span("starting workers…"), Span(f" {running}", DIM)]]
    for label, cells in _rows(status):
        lines += wrapped(label, cells, width)
    return lines


def plain_line(status: Status) -> str:
    """The same in one line: `key value` pairs, two or more spaces apart, in columns that stay where they are."""
    pairs = [
        (f"done {status.done:.1%}", 11),
        (f"steps {count(status.agent_steps)}", 12),
        (f"frames {count(status.frames)}", 13),
        (f"speed {count(status.steps_per_second)}/s", 14),
        (f"time {duration(status.seconds)}", 11),
        (f"left {duration(status.seconds_left)}", 11),
        (f"games {count(status.episodes)}", 12),
        (f"return {score(status.return_mean)}", 14),
        (f"best {score(status.return_max)}", 12),
        (f"filled {status.filled:.0%}", 14) if status.is_warming_up else (f"entropy {decimal(status.entropy)}", 14),
        (f"wait {status.learner_wait_fraction:.0%}", 9),
        (f"workers {status.workers_alive}/{status.worker_count}", 0),
    ]
    return "  ".join(pair.ljust(pair_width) for pair, pair_width in pairs)


def count(value: float) -> str:
    """Whole below 100,000 (`12,345`), three figures above (`123k`, `4.13M`)."""
    if abs(value) < 100_000:
        return f"{value:,.0f}"
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        scaled = value / size
        if abs(scaled) >= 0.9995:
            return f"{scaled:.{2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0}f}{letter}"
    return str(value)  # NaN


def score(value: float | None) -> str:
    """A return: one decimal while small, as averages need, none from 1,000 on, as the games with large scores need."""
    if value is None:
        return NOTHING_YET
    return f"{value:.1f}" if abs(value) < 999.95 else count(value)


def decimal(value: float | None, most: int = 4) -> str:
    """As many decimals, `most` at most, as the columns have room for."""
    if value is None:
        return NOTHING_YET
    candidates = (f"{value:.{decimals}f}" for decimals in range(most, 0, -1))
    return next((text for text in candidates if len(text) <= VALUE_WIDTH), f"{value:.0e}")


def scientific(value: float | None) -> str:
    """Three figures and the shortest exponent: `4.12e-4`."""
    return NOTHING_YET if value is None else f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")


def duration(seconds: float | None) -> str:
    """`1m05s`, `2h03m` or `4d05h`."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING_YET
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02}h"
    return f"{hour}h{minute:02}m" if hours else f"{minute}m{second:02}s"


def progress_bar(done: float, width: int) -> list[Span]:
    """A bar and the percentage behind it."""
    percent = f" {done:6.1%}"
    full, rest = _bar(done, max(0, width - len(percent)))
    return [Span(full, ACCENT), Span(rest, DIM), Span(percent)]


def _bar(fraction: float, width: int) -> tuple[str, str]:
    full = max(0, min(width, int(fraction * width)))
    return "━" * full, "─" * (width - full)


def _rows(status: Status) -> list[tuple[str, list[Cell]]]:
    steps = [Cell(count(status.agent_steps), f"of {count(status.max_steps)}"), Cell(count(status.frames), "frames")]
    speed = [
        Cell(count(status.steps_per_second), "steps/s"),
        Cell(count(status.frames_per_second), "frames/s"),
        Cell(duration(status.seconds), "elapsed"),
        Cell(duration(status.seconds_left), "left"),
    ]
    returns = [
        Cell(score(status.return_mean), f"mean {status.return_window}"),
        Cell(score(status.return_last), "last"),
        Cell(score(status.return_max), "best"),
        Cell(count(status.episodes), "games"),
    ]
    fill = [Cell(f"{status.filled:.0%}", "filled; learning starts at 100%", ACCENT)]
    loss = [
        Cell(decimal(status.policy_loss), "policy"),
        Cell(decimal(status.value_loss), "value"),
        Cell(decimal(status.entropy), "entropy"),
        Cell(decimal(status.gradient_norm), "gradient"),
    ]
    learn = [
        Cell(count(status.updates), f"of {count(status.planned_updates)}"),
        Cell(decimal(status.policy_lag_mean, 1), "lag"),
        Cell(scientific(status.learning_rate), "rate"),
        Cell(f"{status.learner_wait_fraction:.0%}", "waiting"),
    ]
    all_alive = status.workers_alive == status.worker_count
    system = [
        Cell(f"{status.workers_alive}/{status.worker_count}", "workers", NORMAL if all_alive else ALERT),
        Cell(count(status.worker_restarts), "restarts", ALERT if status.worker_restarts else NORMAL),
        Cell(count(status.memory_mb), "MB"),
    ]
    return [
        ("steps", steps),
        ("speed", speed),
        ("return", returns),
        ("fill", fill) if status.is_warming_up else ("loss", loss),
        ("learn", learn),
        *(("replay", _replay_cells(replay)) for replay in status.replays),
        ("system", system),
        ("load", _load_cells(status)),
    ]


def _replay_cells(replay: ReplayFill) -> list[Cell]:
    bar = "".join(_bar(replay.fill / max(1, replay.capacity), VALUE_WIDTH - 1))
    held = Cell(count(replay.fill), f"of {count(replay.capacity)}")
    return [Cell(bar, replay.name), held, Cell(count(replay.share), "a batch")]


def _load_cells(status: Status) -> list[Cell]:
    in_games = NOTHING_YET if status.workers_in_games is None else f"{status.workers_in_games:.0%}"
    cells = [
        Cell(f"{status.cpu_learner:.0f}%", "learner"),
        Cell(f"{status.cpu_workers:.0f}%", "workers"),
        Cell(in_games, "in games"),
    ]
    if status.gpu_utilization is not None:
        cells.append(Cell(f"{status.gpu_utilization:.0f}%", "GPU"))
    return cells


def wrapped(label: str, cells: Sequence[Cell], width: int) -> list[list[Span]]:
    """The row `label` as lines of as many whole cells as fit `width`, one at least."""
    label_width = LABEL_WIDTH if width >= BLOCK_WIDTH else NARROW_LABEL_WIDTH
    lines: list[list[Span]] = []
    free = 0
    for value, unit, style in cells:
        if lines and free >= VALUE_WIDTH + 1 + len(unit):
            previous = lines[-1][-1]
            lines[-1][-1] = previous._replace(text=previous.text.ljust(UNIT_WIDTH))
        else:
            lines.append([Span(("" if lines else label).ljust(label_width), DIM)])
            free = width - label_width
        lines[-1] += [Span(f"{value:>{VALUE_WIDTH}} ", style), Span(unit, DIM)]
        free -= CELL_WIDTH
    return lines
