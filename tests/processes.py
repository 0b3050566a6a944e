"""The processes that a test started."""

from contextlib import suppress
from pathlib import Path

import psutil


def spawned() -> list[psutil.Process]:
    """The living children of this process that multiprocessing spawned.

    Read from /proc of this process only: going through all processes of the machine can take seconds.
    """
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for number in children.read_text().split():
                with suppress(psutil.NoSuchProcess):
                    child = psutil.Process(int(number))
                    if "spawn_main" in " ".join(child.cmdline()):
                        found.append(child)
    return found
