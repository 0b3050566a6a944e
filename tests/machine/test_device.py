"""Devices, cores and memory, on simulated machines."""

from pathlib import Path

import psutil
import pytest
import torch
from torch.cuda._utils import _get_device_index

from machine import device as devices
from machine.device import choose_device, padded_size, usable_cores, usable_memory

GIB = 2**30


@pytest.mark.parametrize(("asked", "chosen"), [("auto", 0), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_is_chosen_by_its_number(monkeypatch: pytest.MonkeyPatch, asked: str, chosen: int) -> None:
    """Without an index, torch refuses to make it the current device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert _get_device_index(choose_device(asked)) == chosen


@pytest.mark.parametrize("name", ["cuda:0", "mps"])
def test_on_a_gpu_there_are_few_batch_sizes_and_little_padding(name: str) -> None:
    sizes = [padded_size(count, torch.device(name)) for count in range(1, 1025)]
    assert all(count <= size <= max(count + 1, 1.25 * count) for count, size in enumerate(sizes, start=1))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 4 * 10
    assert [padded_size(count, torch.device("cpu")) for count in (1, 5, 77)] == [1, 5, 77]


def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    for name, content in files.items():
        (tmp_path / name.replace("_", ".")).write_text(content)
    monkeypatch.setattr(devices, "CONTAINER", tmp_path)


def test_cached_files_count_as_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that saves its replays leaves them in the cache; the next run must still start."""
    free = psutil.virtual_memory().available
    statistics = f"anon {GIB}\nfile {free}\nactive_file {free // 8}\ninactive_file {free // 4}\nshmem 7\n"
    container(tmp_path, monkeypatch, memory_max=f"{free}\n", memory_current=f"{free // 2}\n", memory_stat=statistics)
    assert usable_memory() == pytest.approx(free - free // 2 + free // 8 + free // 4, rel=0.05)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64), ("250000 100000", 2), ("20000 100000", 1)])
def test_the_quota_of_a_container_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    container(tmp_path, monkeypatch, cpu_max=quota)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert usable_cores() == cores
