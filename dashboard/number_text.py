"""Numbers of runs as short text for the page."""

from dashboard.run_list import RunRow
from reports.number_format import NOTHING_YET, count, duration, score

MINUTE, HOUR, DAY = 60, 3600, 86400


def number(value: float | None) -> str:
    return NOTHING_YET if value is None else count(value)


def game_return(value: float | None) -> str:
    return score(value).replace("-", "−")


def age(written: float, now: float) -> str:
    """How long ago a run last wrote something, coarse enough not to change all the time."""
    seconds = now - written
    if not written:
        return NOTHING_YET
    if seconds < MINUTE:
        return "now"
    for size, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {word} ago"
    raise AssertionError


def progress(row: RunRow) -> str:
    """The fraction of its steps that a run has made."""
    if row.agent_steps is None or not row.max_steps:
        return NOTHING_YET
    return f"{min(1.0, row.agent_steps / row.max_steps):.0%}"


def time_left(row: RunRow) -> str:
    if not row.steps_per_second or row.agent_steps is None or row.max_steps is None:
        return NOTHING_YET
    return duration(max(0.0, row.max_steps - row.agent_steps) / row.steps_per_second)


def size(nbytes: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes:.0f} B"
