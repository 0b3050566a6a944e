"""Numbers as short text for displays. Every text fits into `VALUE_WIDTH` characters, so columns stay aligned.

The z of the formats removes the minus of a number that is rounded to 0.
"""

import math

VALUE_WIDTH = 7
NOTHING_YET = "—"  # for a number that does not exist yet


def count(value: float, whole_below: int = 100_000) -> str:
    """All digits below 100,000 (`12,345`), three significant digits above (`123k`, `4.13M`)."""
    if abs(value) < whole_below:
        return f"{value:z,.0f}"
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        scaled = value / size
        if abs(scaled) >= 0.9995:
            if abs(scaled) >= 999.5:  # as a power of ten: 1.0e15
                return f"{value:.1e}".replace("e+", "e")
            return f"{scaled:.{2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0}f}{letter}"
    return str(value)  # NaN


def score(value: float | None) -> str:
    """A return: three significant digits of a small one, one decimal below 1,000, none above."""
    if value is None:
        return NOTHING_YET
    if 0 < abs(value) < 0.0005:
        return f"{value:.0e}".replace("e-0", "e-") if abs(value) > 1e-99 else "0.0"
    for below, decimals in ((0.0995, 4), (0.9995, 3), (9.995, 2), (999.95, 1)):
        if abs(value) < below and value:
            return f"{value:.{decimals}f}"
    return count(value) if value else "0.0"


def decimal(value: float | None, max_decimals: int = 4) -> str:
    """As many decimals as fit, at most `max_decimals`."""
    if value is None:
        return NOTHING_YET
    candidates = (f"{value:z.{decimals}f}" for decimals in range(max_decimals, 0, -1))
    return next((text for text in candidates if len(text) <= VALUE_WIDTH), f"{value:.0e}")


def scientific(value: float | None) -> str:
    """Three significant digits and the shortest exponent: `4.12e-4`."""
    return NOTHING_YET if value is None else f"{value:z.2e}".replace("e-0", "e-").replace("e+0", "e")


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


def key_values(pairs: list[tuple[str, int]]) -> str:
    """One line of `key value` pairs in columns of fixed width, two or more spaces apart."""
    return "  ".join(pair.ljust(width) for pair, width in pairs).rstrip()


def game_return(value: float | None) -> str:
    """A return on a page, with the sign of mathematics."""
    return score(value).replace("-", "−")


def count_or_nothing(value: float | None) -> str:
    return NOTHING_YET if value is None else count(value)


def age(written: float, now: float) -> str:
    """How long ago a run last wrote something, coarse enough not to change all the time: `6 min ago`."""
    seconds = now - written
    if not written:
        return NOTHING_YET
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {word} ago"
    return "now"


def file_size(nbytes: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes:.0f} B"
