"""The live display of a training as a picture, in the colours of a terminal."""

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.reports.rendering import REPOSITION

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 100, 40  # of the terminal, in characters
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


def console_svg(env: str, seconds: float) -> bytes:
    """The last display of a new training with seed 1, ended by CTRL+C after `seconds`; prints its last lines."""
    words = ["main.py", "--op_mode=train", f"--env={env}", "--seed=1"]
    command = [sys.executable, str(ROOT / words[0]), *words[1:], "--console=live"]
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONUTF8": "1"}
    variables |= {"COLUMNS": str(WIDTH + 1), "LINES": str(HEIGHT)}
    with tempfile.TemporaryDirectory() as folder:  # so that the display names results/..., as in the README
        training = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, env=variables)
        with suppress(subprocess.TimeoutExpired):
            training.communicate(timeout=seconds)
        training.send_signal(signal.SIGINT)
        written = training.communicate(timeout=60)[0].decode()
    print(written.rpartition(SHOW_CURSOR)[2], end="")
    return draw(written, "python " + " ".join(words))


def draw(written: str, title: str) -> bytes:
    """The lines before the first display, and the last display, as an SVG."""
    header = written.partition(HIDE_CURSOR)[0]
    last_display = REPOSITION.split(written)[-1].partition(SHOW_CURSOR)[0]
    shown = re.sub(r"\x1b\[\?\d+[hl]", "", header + last_display).rstrip()
    console = Console(file=io.StringIO(), width=WIDTH, record=True, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown), soft_wrap=True)
    return console.export_svg(title=title, unique_id="console").encode()
