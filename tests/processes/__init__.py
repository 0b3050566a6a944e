"""The processes that a test started, and the memory of processes."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil


def spawned() -> list[psutil.Process]:
    """The living children of this process that `processes` spawned, besides fork servers.

    Read from /proc of this process only: going through all processes of the machine can take seconds.
    """
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for number in children.read_text().split():
                with suppress(psutil.NoSuchProcess):
                    child = psutil.Process(int(number))
                    words = child.cmdline()
                    if "processes.inside" in " ".join(words) and words[-1] != "fork server":
                        found.append(child)
    return found


def forked() -> list[psutil.Process]:
    """The living children of the fork servers of this process."""
    found = []
    for server in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has ended
            if server.cmdline()[-1:] == ["fork server"]:
                found += [child for child in server.children() if child.status() != psutil.STATUS_ZOMBIE]
    return found


def signal_session(leader: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a session, as Slurm and systemd do. Workers have groups of their own."""
    for process in [leader, *(child.pid for child in psutil.Process(leader).children(recursive=True))]:
        with suppress(ProcessLookupError):
            if os.getsid(process) == leader:
                os.kill(process, number)


def wait_until_gone(*process_ids: int, seconds: float = 60.0) -> None:
    """Wait until these processes have ended; kill those that have not after so many seconds, and fail.

    What is nobody's child may remain as a zombie, where the first process of a container does not look after it.
    """
    deadline = time.monotonic() + seconds
    while left := [number for number in process_ids if _runs(number)]:
        if time.monotonic() > deadline:
            for number in left:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            raise AssertionError(f"the processes {left} are left")
        time.sleep(0.01)


def _runs(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def mebibytes(processes: Iterable[psutil.Process], kind: Literal["pss", "uss"]) -> float:
    """The memory of processes: with their part of what others share too (pss), or what is theirs alone (uss)."""
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += getattr(process.memory_full_info(), kind)
    return total / 2**20


def files_in_dev_shm(run: psutil.Process) -> set[str]:
    """Those that the processes of a run have mapped: they would be left after `kill -9`. None, as it should be."""
    mapped: set[str] = set()
    for process in [run, *run.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # one that starts another ends by itself
            mapped |= {region.path for region in process.memory_maps()}
    return {path for path in mapped if path.startswith("/dev/shm/") and Path(path).exists()}
