"""Cards of figures, side by side: the building blocks of the live displays."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reports.number_format import VALUE_WIDTH

ACCENT, ALERT, DIM = "cyan", "yellow", "dim"
GAP = 2  # columns between two cards
LABEL_WIDTH = 9
SMALL_CARD, FULL_CARD = 18, 25  # widths of a card without and with notes
BLOCKS = " ▁▂▃▄▅▆▇█"


class Fact(NamedTuple):
    """One line of a card. The note is dropped if the card is too narrow for it."""

    label: str
    value: str
    note: str = ""
    style: str = ""


class Card(NamedTuple):
    """A heading and the lines below it. A Text is shown as it is."""

    title: str
    lines: Sequence[Fact | Text]


def column_count(width: int) -> int:
    """How many cards fit side by side into `width` characters: four at most."""
    if width >= 2 * FULL_CARD + GAP:
        return min(4, (width + GAP) // (FULL_CARD + GAP))
    return 2 if width >= 2 * SMALL_CARD + GAP else 1


def card_width(width: int, columns: int, spanned: int = 1) -> int:
    """Width of a card that spans `spanned` of `columns`."""
    single = max(1, (width - GAP * (columns - 1)) // columns)
    return single * spanned + GAP * (spanned - 1)


def card_row(cards: Sequence[Card], widths: Sequence[int]) -> list[Text]:
    """The lines of one row of cards. Shorter cards are filled with empty lines."""
    height = max(len(card.lines) for card in cards)
    return [
        Text(" " * GAP).join(_card_line(card, row, width) for card, width in zip(cards, widths, strict=True))
        for row in range(-1, height)
    ]


def card_rows(cards: Sequence[Card], width: int, columns: int) -> list[list[Text]]:
    """The lines of each row, with `columns` cards in a row."""
    rows = [cards[first : first + columns] for first in range(0, len(cards), columns)]
    return [card_row(row, [card_width(width, columns)] * len(row)) for row in rows]


def heading(title: str, width: int) -> Text:
    """A title and a line that fills the rest of the width."""
    return Text.assemble((title, "bold"), (" " + "─" * (width - len(title) - 1), DIM))


def bar(fraction: float, width: int | None = None) -> ProgressBar:
    return ProgressBar(1.0, min(1.0, fraction), width, complete_style=ACCENT, finished_style=ACCENT)


def progress_line(done: float) -> RenderableType:
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


def _card_line(card: Card, row: int, width: int) -> Text:
    if row < 0:
        return heading(card.title, width)
    if row >= len(card.lines):
        return Text(" " * width)
    line = card.lines[row]
    text = _fact_line(line, width) if isinstance(line, Fact) else line.copy()
    text.truncate(width, overflow="crop", pad=True)
    return text


def _fact_line(fact: Fact, width: int) -> Text:
    label_width = LABEL_WIDTH + max(0, min(3, width - FULL_CARD))
    text = Text.assemble((fact.label.ljust(label_width), DIM), (fact.value.rjust(VALUE_WIDTH), fact.style))
    if len(fact.note) < width - len(text):
        text.append(" " + fact.note, DIM)
    return text
