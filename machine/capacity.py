"""The cores, the memory and the open files that this process may use, and what worker and player processes need."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from options.rules import UsageError

OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")  # where Linux keeps the limits of containers and of jobs, as those of Slurm
SHARING = "RL_LEARNERS_HERE"  # environment variable of a learner and its children: how many learners share this machine
PART_OF_FREE = 0.9  # of the memory; the rest is for networks, activations and other programs
PROCESS_BYTES, GAME_BYTES = 170 << 20, 2 << 20  # a worker or a player with torch, and each of its games
INFERENCE_BYTES = 48 << 20  # an inference process, without what it shares with its siblings
UNROLLS_OF_GAME = 3  # in slots, and those that are being played
OTHER_FILES, FILES_OF_PROCESS = 256, 4  # open files: of a process itself, and for each child process


def usable_cores() -> int:
    """Cores that this process may use, by its affinity and the quotas of its control groups.

    A learner has had its affinity narrowed to its part of the cores. Of everything else it counts an equal part.
    """
    sharing = max(1, int(os.environ.get(SHARING, "1")))
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else (os.cpu_count() or 1) // sharing
    return max(1, min([cores, *(round(quota) // sharing for quota in _quotas())]))


def usable_memory() -> int:
    """Bytes of memory that are free for this process, on the machine and within the limits of its control groups."""
    return min([psutil.virtual_memory().available, *_free_in_groups()])


def _quotas() -> Iterator[float]:
    """In cores."""
    for folder in _own_groups():
        with suppress(OSError, ValueError):  # also where there is no limit
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)


def _free_in_groups() -> Iterator[int]:
    for folder in _own_groups():
        with suppress(OSError, ValueError):
            free = int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
            figures = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            # The system frees cached files when memory is needed.
            yield free + int(figures.get("active_file", 0)) + int(figures.get("inactive_file", 0))


def _own_groups() -> Iterator[Path]:
    """The control groups of this process (version 2), each inside the next one: all their limits hold for it.

    A container may see its own group as the root, while its path is that on the host: the root always counts.
    """
    with suppress(OSError):
        lines = OWN_GROUP.read_text().splitlines()
        own = GROUPS / next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
        yield from (own, *own.parents)  # those above GROUPS have no such files


def allow_processes(count: int) -> None:
    """Let this process open the files of so many children, as far as the hard limit allows; children inherit this."""
    number = OTHER_FILES + FILES_OF_PROCESS * count
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if most == resource.RLIM_INFINITY else min(number, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def bytes_of_processes(count: int, games_each: int, unroll_bytes: int, inference_processes: int = 0) -> int:
    """What `count` workers or players need, each with so many games and inference processes."""
    games = games_each * (GAME_BYTES + UNROLLS_OF_GAME * unroll_bytes)
    return count * (PROCESS_BYTES + games + inference_processes * INFERENCE_BYTES)


def check_memory(of_processes: int, of_replays: int = 0, learners: int = 1) -> None:
    """UsageError if processes and replays need more bytes than are free: an equal part of them for each learner."""
    room = int(PART_OF_FREE * usable_memory()) // learners
    if of_processes + of_replays <= room:
        return
    remedy = "a smaller --worker_count (on a node --node_workers), --envs_per_worker or --inference_processes"
    if of_replays > of_processes:
        remedy = "a smaller --batch_size, --r_f_steps or capacity in --replay_parameters, or --use_replay_compression,"
    raise UsageError(
        f"the processes of this run need {format_bytes(of_processes)} of memory and its full replays "
        f"{format_bytes(of_replays)}, more than the {format_bytes(room)} that are free; {remedy} would be right."
    )


def format_bytes(nbytes: int) -> str:
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 0.1 * 2**30 else f"{nbytes / 2**20:,.1f} MiB"
