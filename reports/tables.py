"""Tables as plain lines, for consoles, pipes and files, and as Markdown."""

import io
from collections.abc import Collection, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNLIMITED = 10_000  # characters; lines are never wrapped, so that a path in them can be copied


def table_lines(
    rows: Sequence[Sequence[str]], headings: Sequence[str] | None = None, *, right: Collection[int] = ()
) -> list[str]:
    """The rows in aligned columns, two spaces apart, under the underlined headings.

    `right` holds the indices of the columns that are aligned to the right.
    """
    if not rows:
        return []
    table = Table(
        box=box.SIMPLE_HEAD if headings else None, show_header=bool(headings), show_edge=False, pad_edge=False,
        padding=(0, 2, 0, 0) if headings is None else (0, 1, 0, 0),
    )  # fmt: skip
    for column in range(len(rows[0])):
        heading = Text(headings[column]) if headings else ""
        table.add_column(heading, justify="right" if column in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    console = Console(
        file=io.StringIO(), width=UNLIMITED, color_system=None, force_terminal=False, legacy_windows=False
    )
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def markdown_table(rows: Sequence[Sequence[str]], headings: Sequence[str], *, right: Collection[int] = ()) -> list[str]:
    """The same table in Markdown."""
    rule = ["---:" if column in right else "---" for column in range(len(headings))]
    return [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]
