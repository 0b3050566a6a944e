"""The processes that a test started, and the memory of processes."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

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


def mebibytes(processes: Iterable[psutil.Process], kind: Literal["pss", "uss"]) -> float:
    """The memory of processes: with their part of what others share too (pss), or what is theirs alone (uss)."""
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += getattr(process.memory_full_info(), kind)
    return total / 2**20
