"""The processes that a test has started."""

from contextlib import suppress
from pathlib import Path

import psutil


def spawned() -> list[psutil.Process]:
    """The children of this process that multiprocessing spawned and that are alive.

    Found without a look at every process of the machine, for which a thread beside a busy one may need seconds.
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
