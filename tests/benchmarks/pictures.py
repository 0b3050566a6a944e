"""Make the pictures of the README: the curves of a run, a game of its agent, and the live display.

    python -m tests.benchmarks.pictures results/<run> docs/pictures [--seconds=45]

The curves and the game are those of the run. The display is that of a new training of the same game with seed 1, ended
by CTRL+C after `--seconds`. On one machine, the curves and the game are the same each time.
"""

import argparse
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

from options.rules import UsageError
from reports.run_curves import draw_run
from run_files.run_folder import write_atomically
from run_files.run_history import History
from run_files.run_reader import read_history
from tests.benchmarks.console_picture import console_svg
from tests.benchmarks.game_film import game_gif

MAX_BYTES = 1_400_000  # of the animation
CURVES_COLOURS = 256


def curves_png(history: History) -> bytes:
    """The run's curves.png with fewer colours, so that the file is smaller."""
    with Image.open(BytesIO(draw_run(history))) as picture:
        buffer = BytesIO()
        few = picture.convert("RGB").quantize(CURVES_COLOURS, dither=Image.Dither.NONE)
        few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path, help="the folder for the pictures")
    parser.add_argument("--seconds", type=float, default=45.0, help="length of the training that the display shows")
    arguments = parser.parse_args()
    try:
        history = read_history(arguments.run)
        arguments.folder.mkdir(parents=True, exist_ok=True)
        for name, content in (
            ("curves.png", curves_png(history)),
            ("game.gif", game_gif(arguments.run, MAX_BYTES)),
            ("console.svg", console_svg(str(history.options["env"]), arguments.seconds)),
        ):
            write_atomically(arguments.folder / name, content)
            print(f"{arguments.folder / name}: {len(content):,} bytes")
    except UsageError as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
