"""The process that draws curves.png during a run; `reports/sinks/curves_sink.py` starts it.

Learner and workers never import matplotlib. This process reads requests from its standard input and exits at its end.
"""

import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

from reports.run_curves import draw_run
from reports.sinks.curves_sink import LAST_WORD, NEW_REPORT
from run_files.run_folder import write_atomically
from run_files.run_history import read_history

FILE = "curves.png"
REST = 30  # pause after a drawing, in drawing times: drawing takes a thirtieth of a core at most


def serve(folder: Path, requests: int) -> None:
    """Draw after new reports, with pauses between drawings, until LAST_WORD or the end of the pipe `requests`."""
    due = False
    rested_at = 0.0
    while True:
        now = time.monotonic()
        heard = select.select([requests], [], [], max(0.0, rested_at - now) if due else None)[0]
        words = os.read(requests, 4096) if heard else b""
        if heard and not words:  # the learner has exited
            return
        due = due or NEW_REPORT in words
        last = LAST_WORD in words
        if due and (last or time.monotonic() >= rested_at):
            begun = time.process_time()
            draw(folder)
            due = False
            rested_at = time.monotonic() + REST * (time.process_time() - begun)
        if last:
            return


def draw(folder: Path) -> None:
    picture = draw_run(read_history(folder))
    with suppress(OSError):  # a full disk, which the run itself announces; the next drawing tries again
        write_atomically(folder / FILE, picture)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.stdin.fileno())
