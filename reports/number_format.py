"""Numbers as short text, and tables of texts. A number fits into `VALUE_WIDTH` characters, so columns stay aligned.

The z of the formats removes the minus of a number that is rounded to 0.
"""

import math
from collections.abc import Collection, Sequence

from rich.cells import cell_len

VALUE_WIDTH = 7
COUNTED = {
    *("agent_steps", "frames", "updates", "episodes", "games", "max_games", "return_window"),
    *("speed", "frames_speed", "mean_speed", "steps_per_second", "worker_restarts", "workers_alive", "worker_count"),
    *("memory_mb", "dropped_unrolls", "action_age_95", "action_age_max"),
    *("nodes_playing", "nodes_workers", "nodes_speed"),
}
WHOLES = {"max_steps", "planned_updates"}  # of which something else is a part, shown shorter
SHARES = {"filled", "clipped_share", "learner_wait_fraction", "worker_time_shares/environment"}
SMALL_SHARES = {"done", "idle_share", "missed_share"}
PERCENTAGES = {"cpu_learner", "cpu_workers", "gpu_utilization"}
NOTHING_YET = "—"  # for a number that does not exist yet


def count(value: float | None, whole_below: int = 100_000) -> str:
    """All digits below 100,000 (`12,345`), three significant digits above (`123k`, `4.13M`)."""
    if value is None:
        return NOTHING_YET
    if abs(value) < whole_below:
        return f"{value:z,.0f}"
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        scaled = value / size
        if abs(scaled) >= 0.9995:
            if abs(scaled) >= 999.5:  # as a power of ten: 1.0e15
                return f"{value:.1e}".replace("e+", "e")
            return f"{scaled:.{2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0}f}{letter}"
    return str(value)  # NaN


def number(value: float | None) -> str:
    """Three significant digits where they fit (`4.12e-4`, `0.0123`, `1.23`), one decimal from 100 to 1,000."""
    if value is None or not 0 < abs(value) < 999.95:
        return "0.0" if value == 0 else count(value)
    decimals = max(1, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    texts = (f"{value:.{decimals}f}", *(f"{value:.{digits}e}".replace("e-0", "e-") for digits in (2, 1, 0)))
    return next(text for text in texts if len(text) <= VALUE_WIDTH)


def on_page(value: float | None) -> str:
    """A number for a page, with the sign of mathematics."""
    return number(value).replace("-", "−")


def formatted(figure: str, value: float | None) -> str:
    """A figure as it is shown everywhere, by its name in metrics.jsonl."""
    if figure in COUNTED:
        return count(value)
    if figure in WHOLES:
        return count(value, 10_000)
    if figure in SHARES:
        return percent(value)
    if figure in SMALL_SHARES:
        return percent(value, 1)
    if figure in PERCENTAGES:
        return percent(None if value is None else value / 100)
    return duration(value) if figure.startswith("seconds") else number(value)


def percent(fraction: float | None, decimals: int = 0) -> str:
    return NOTHING_YET if fraction is None else f"{fraction:z.{decimals}%}"


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


def age(written: float, now: float) -> str:
    """How long ago a run last wrote something, coarse enough not to change all the time: `6 min ago`."""
    seconds = now - written
    if not written:
        return NOTHING_YET
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {word} ago"
    return "now"


def table_lines(
    rows: Sequence[Sequence[str]], headings: Sequence[str] = (), *, right: Collection[int] = ()
) -> list[str]:
    """The rows in aligned columns, under the underlined headings. `right`: the columns that are aligned to the right.

    Lines are never wrapped, so that a path in them can be copied.
    """
    texts = [headings, *rows] if headings and rows else rows
    columns = [
        [" " * room + cell if place in right else cell + " " * room for cell, room in zip(column, rooms, strict=True)]
        for place, column in enumerate(zip(*texts, strict=True))
        for widths in [[cell_len(cell) for cell in column]]
        for rooms in [[max(widths) - width for width in widths]]
    ]
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    if headings and rows:
        lines.insert(1, "  ".join("─" * max(map(cell_len, column)) for column in columns))
    return lines


def markdown_table(rows: Sequence[Sequence[str]], headings: Sequence[str], *, right: Collection[int] = ()) -> list[str]:
    """The same table in Markdown."""
    rule = ["---:" if column in right else "---" for column in range(len(headings))]
    return [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]
