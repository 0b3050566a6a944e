"""The display of a terminal as a picture: what a training really wrote there, in the colours that it asked for."""

import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

from agents.status import ACCENT, ALERT, DIM, NORMAL
from tests.terminal import ROOT, Cell, Screen, run_on_terminal

WIDTH, HEIGHT = 100, 40  # of the terminal, in characters
FONT = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
FONT_SIZE, CELL_WIDTH, CELL_HEIGHT = (
    20,
    12,
    26,
)  # pixels; at this size characters are 12.04 wide, so that bars have no gaps
MARGIN = 24
BACKGROUND = (24, 26, 30)
COLOURS = {NORMAL: (226, 228, 232), DIM: (136, 142, 152), ACCENT: (86, 194, 214), ALERT: (230, 180, 80)}


def console_png(env: str, seconds: float) -> bytes:
    """The terminal after a new training of so many seconds, seed 1, was ended by CTRL+C."""
    screen = Screen(WIDTH, HEIGHT)
    with tempfile.TemporaryDirectory() as folder:  # the display names the results as the README does: results/...
        command = [sys.executable, str(ROOT / "main.py"), "--op_mode=train", f"--env={env}", "--seed=1"]
        screen.feed(run_on_terminal(command, WIDTH, HEIGHT, {}, folder=Path(folder), interrupt_after=seconds))
    return draw(screen.cells)


def draw(cells: Sequence[Sequence[Cell]]) -> bytes:
    """The rows of a screen as a PNG, without the empty ones at its bottom."""
    used = [row for row, line in enumerate(cells) if any(cell.character != " " for cell in line)]
    rows = cells[: max(used, default=0) + 1]
    size = (2 * MARGIN + CELL_WIDTH * len(rows[0]), 2 * MARGIN + CELL_HEIGHT * len(rows))
    picture = Image.new("RGB", size, BACKGROUND)
    pen = ImageDraw.Draw(picture)
    font = ImageFont.truetype(FONT, FONT_SIZE)
    for row, line in enumerate(rows):
        for column, (character, style) in enumerate(line):
            place = (MARGIN + CELL_WIDTH * column, MARGIN + CELL_HEIGHT * row)
            if character != " ":
                pen.text(place, character, fill=COLOURS[style], font=font)
    buffer = BytesIO()
    picture.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
