"""The cores and the memory that this process may use."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")  # where Linux keeps the limits of containers and of jobs, as those of Slurm
SHARING = "RL_LEARNERS_HERE"  # environment variable of a learner and its children: how many learners share this machine


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
    for folder in _own_groups("cpu"):
        with suppress(OSError, ValueError, ZeroDivisionError):  # also where there is no limit
            words = _read(folder / "cpu.max").split()
            yield int(words[0]) / int(words[1])
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota = int(_read(folder / "cpu.cfs_quota_us"))
            if quota > 0:
                yield quota / int(_read(folder / "cpu.cfs_period_us"))


def _free_in_groups() -> Iterator[int]:
    for folder in _own_groups("memory"):
        # The system frees cached files when memory is needed.
        with suppress(OSError, ValueError):  # also where there is no limit
            limit, used = int(_read(folder / "memory.max")), int(_read(folder / "memory.current"))
            cached = _figures(folder)
            yield limit - used + cached.get("active_file", 0) + cached.get("inactive_file", 0)
        with suppress(OSError, ValueError):
            limit, used = int(_read(folder / "memory.limit_in_bytes")), int(_read(folder / "memory.usage_in_bytes"))
            cached = _figures(folder)
            yield limit - used + cached.get("total_active_file", 0) + cached.get("total_inactive_file", 0)


def _figures(folder: Path) -> Mapping[str, int]:
    with suppress(OSError, ValueError):
        return {name: int(figure) for name, figure in map(str.split, _read(folder / "memory.stat").splitlines())}
    return {}


def _own_groups(controller: str) -> Iterator[Path]:
    """The control groups of this process, each inside the next one: a limit of any of them holds for the process.

    In version 2 of control groups, there is one tree of folders; in version 1, each controller has its own. A container
    may see its own group as the root, while its path is that on the host: the root always counts.
    """
    with suppress(OSError, ValueError):
        for line in _read(OWN_GROUPS).splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = GROUPS / controller if controllers else GROUPS
            own = root / path.strip("/")
            if ".." not in own.parts:
                yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(root) and folder != root)
            yield root


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
