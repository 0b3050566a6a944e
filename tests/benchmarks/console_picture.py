"""The display of a terminal as a picture: what a training really wrote there, in the colours that it asked for."""

import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

from reports.run_display import ACCENT, ALERT, DIM, NORMAL
from tests.terminal import BLANK, ROOT, Cell, Screen, run_on_terminal

WIDTH, HEIGHT = 100, 40  # of the terminal, in characters
FONT = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
FONT_SIZE = 20  # pixels; its characters are 12.04 wide, so that bars have no gaps
CELL_WIDTH, CELL_HEIGHT = 12, 26
MARGIN = 24
BACKGROUND = (24, 26, 30)
COLOURS = {NORMAL: (226, 228, 232), DIM: (136, 142, 152), ACCENT: (86, 194, 214), ALERT: (230, 180, 80)}


def console_png(env: str, seconds: float) -> bytes:
    """The last display of a new training, seed 1, ended by CTRL+C after so many seconds; prints what came after it."""
    screen = Screen(WIDTH, HEIGHT)
    with tempfile.TemporaryDirectory() as folder:  # the display names the results as the README does: results/...
        command = [sys.executable, str(ROOT / "main.py"), "--op_mode=train", f"--env={env}", "--seed=1"]
        written = run_on_terminal(command, WIDTH, HEIGHT, {}, folder=Path(folder), interrupt_after=seconds)
    display, cleared_below, ending = written.rpartition("\x1b[J")  # the end of each drawing of the display
    screen.feed(display + cleared_below)
    print(ending.replace("\r", ""), end="")
    return draw(screen.cells)


def draw(cells: Sequence[Sequence[Cell]]) -> bytes:
    """A screen as a PNG, without the empty rows at its bottom and the empty columns at its right."""
    shown = [(row, column, cell) for row, line in enumerate(cells) for column, cell in enumerate(line) if cell != BLANK]
    width = 1 + max(column for _, column, _ in shown)
    height = 1 + max(row for row, _, _ in shown)
    size = (2 * MARGIN + CELL_WIDTH * width, 2 * MARGIN + CELL_HEIGHT * height)
    picture = Image.new("RGB", size, BACKGROUND)
    pen = ImageDraw.Draw(picture)
    font = ImageFont.truetype(FONT, FONT_SIZE)
    for row, column, cell in shown:
        place = (MARGIN + CELL_WIDTH * column, MARGIN + CELL_HEIGHT * row)
        pen.text(place, cell.character, fill=COLOURS[cell.style], font=font)
    buffer = BytesIO()
    picture.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
