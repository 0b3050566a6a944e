"""Cards of figures, side by side: the building blocks of the live displays."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from reports.number_format import VALUE_WIDTH

ACCENT, ALERT, DIM = "cyan", "yellow", "dim"
GAP = 2  # columns between two cards
LABEL_WIDTH, CARD_WIDTH = 9, 25  # of the longest label; of a card
MOST_COLUMNS = 3  # of cards
BLOCKS = " ▁▂▃▄▅▆▇█"


class Fact(NamedTuple):
    """One line of a card."""

    label: str
    value: str
    note: str = ""
    style: str = ""


class Card(NamedTuple):
    """A heading and the lines below it."""

    title: str
    lines: Sequence[Fact | RenderableType]


def card_grid(cards: Sequence[Card], width: int) -> Table:
    """All cards, as many of them side by side as fit into `width` characters."""
    columns = max(1, min(MOST_COLUMNS, (width + GAP) // (CARD_WIDTH + GAP)))
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for _ in range(columns):
        grid.add_column(width=(width + GAP) // columns - GAP, no_wrap=True, overflow="crop")
    for first in range(0, len(cards), columns):
        grid.add_row(*map(_drawn, cards[first : first + columns]))
    return grid


def _drawn(card: Card) -> RenderableType:
    lines = [_fact_line(line) if isinstance(line, Fact) else line for line in card.lines]
    return Group(heading(card.title), *lines)


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


class Trend:
    """The history of a number since the start, in fewer than `max_samples` samples at equal intervals."""

    def __init__(self, max_samples: int = 256) -> None:
        self.samples: list[float] = []
        self._max_samples = max_samples
        self._added = 0
        self._interval = 1

    def add(self, value: float | None) -> None:
        """Add the present value; None and NaN are left out."""
        if value is None or not math.isfinite(value):
            return
        if self._added % self._interval == 0:
            self.samples.append(value)
        self._added += 1
        if len(self.samples) == self._max_samples:
            self.samples = self.samples[::2]
            self._interval *= 2
