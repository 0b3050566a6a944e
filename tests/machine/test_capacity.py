"""The cores and the memory that a process may use, with simulated control groups."""

import os
import resource
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from machine import capacity
from machine.capacity import allow_processes, usable_cores, usable_memory

GIB = 2**30


@pytest.fixture(autouse=True)
def _large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000 * GIB))
    monkeypatch.delenv(capacity.SHARING, raising=False)


def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, **files: str) -> None:
    """A tree of control groups; `own` is what /proc/self/cgroup says."""
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.setattr(capacity, "OWN_GROUP", tmp_path / "own")
    monkeypatch.setattr(capacity, "GROUPS", tmp_path / "groups")


@pytest.mark.parametrize(
    "files",
    [
        {"memory.max": f"{8 * GIB}\n", "memory.current": f"{4 * GIB}\n"},
        {"job/memory.max": f"{8 * GIB}\n", "job/memory.current": f"{4 * GIB}\n", "memory.max": "max\n"},
        {"job/step/memory.max": "max\n", "job/memory.max": f"{8 * GIB}\n", "job/memory.current": f"{4 * GIB}\n"},
    ],
    ids=["container", "own group", "a group around it"],
)
def test_cached_files_count_as_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    """A run that saves its replays leaves them in the cache; the next run must still start."""
    folder = str(Path(next(name for name in files if name.endswith("current"))).parent)
    statistics = f"anon {GIB}\nactive_file {GIB}\ninactive_file {2 * GIB}\nshmem 7\n"
    groups(tmp_path, monkeypatch, "0::/job/step\n", **files, **{f"{folder}/memory.stat": statistics})
    assert usable_memory() == (8 - 4 + 1 + 2) * GIB


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000"}, 64),
        ("0::/\n", {"cpu.max": "250000 100000"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000"}, 1),
        ("0::/job\n", {"cpu.max": "max 100000", "job/cpu.max": "800000 100000"}, 8),
        ("0::/job/step\n", {"job/cpu.max": "400000 100000", "job/step/cpu.max": "800000 100000"}, 4),
        ("0::/../elsewhere\n", {"cpu.max": "300000 100000"}, 3),
    ],
)
def test_the_quota_of_a_container_or_job_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], cores: int
) -> None:
    groups(tmp_path, monkeypatch, own, **files)
    assert usable_cores() == cores


def test_without_control_groups_only_the_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "OWN_GROUP", tmp_path / "missing")
    assert (usable_cores(), usable_memory()) == (64, 1000 * GIB)


def test_learners_of_one_machine_share_its_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups(tmp_path, monkeypatch, "0::/\n", **{"cpu.max": "900000 100000"})
    monkeypatch.setenv(capacity.SHARING, "2")
    assert usable_cores() == 4
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {5, 6, 7})
    assert usable_cores() == 3, "its own part of the affinity is narrower"
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 3, "where there is no affinity, as in macOS"


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "expected"),
    [
        (1024, 4096, 2000, [2000]),
        (1024, 4096, 9000, [4096]),
        (256, resource.RLIM_INFINITY, 9000, [9000]),  # as on macOS
        (1024, 4096, 1024, []),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 9000, []),
    ],
)
def test_more_open_files_are_allowed_where_that_is_possible(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, asked: int, expected: list[int]
) -> None:
    allowed: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda number: (soft, hard))
    monkeypatch.setattr("resource.setrlimit", lambda number, limits: allowed.append(limits))
    monkeypatch.setattr(capacity, "OTHER_FILES", 0)
    monkeypatch.setattr(capacity, "FILES_OF_PROCESS", 1)
    allow_processes(asked)
    assert allowed == [(each, hard) for each in expected]
