"""Renders rich displays as plain text."""

import io
import re

from rich.console import Console, RenderableType

REPOSITION = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")  # how rich goes back to the first line of a live display
CODES = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")


def as_lines(view: RenderableType, width: int) -> list[str]:
    """What a terminal of this width shows, without spaces at the ends of lines."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard", record=True)
    console.print(view)
    return [line.rstrip() for line in console.export_text().splitlines()]


def drawings(written: str) -> list[list[str]]:
    """What was written to a terminal, split where the display was redrawn, without control codes."""
    return [[line.rstrip() for line in without_codes(part).split("\n")] for part in REPOSITION.split(written)]


def without_codes(written: str) -> str:
    return CODES.sub("", written)
