"""The process that draws curves.png during a run; `reports/sinks/curves_sink.py` starts it.

Learner and workers never import matplotlib. This process reads requests from its standard input, and exits when that
is closed.
"""

import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

from options.rules import UsageError
from reports.run_curves import draw_run
from reports.sinks.curves_sink import FILE, LAST_REQUEST, NEW_REPORT
from run_files.run_folder import write_atomically
from run_files.run_reader import RunReader

PAUSE = 30  # drawing times; so drawing takes a thirtieth of a core at most


def serve(folder: Path, requests: int) -> None:
    """Draw after new reports, with pauses between drawings, until LAST_REQUEST or the end of the pipe `requests`."""
    reader = RunReader(folder)
    due = False
    next_drawing = 0.0
    while True:
        now = time.monotonic()
        readable = select.select([requests], [], [], max(0.0, next_drawing - now) if due else None)[0]
        received = os.read(requests, 4096) if readable else b""
        if readable and not received:  # the learner has exited
            return
        due = due or NEW_REPORT in received
        last = LAST_REQUEST in received
        if due and (last or time.monotonic() >= next_drawing):
            begun = time.process_time()
            draw(reader)
            due = False
            next_drawing = time.monotonic() + PAUSE * (time.process_time() - begun)
        if last:
            return


def draw(run: RunReader) -> None:
    run.refresh()
    if not run.config:
        raise UsageError(f"{run.folder}/config.json is missing or damaged")
    picture = draw_run(run.history)
    with suppress(OSError):  # a full disk, which the run itself announces; the next drawing tries again
        write_atomically(run.folder / FILE, picture)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.stdin.fileno())
