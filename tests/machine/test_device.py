"""What this process may use of a machine, as other machines would say it."""

from pathlib import Path

import psutil
import pytest
import torch
from torch.cuda._utils import _get_device_index

from machine import device as devices
from machine.device import choose_device, size_computed, usable_cores, usable_memory

GIB = 2**30


@pytest.mark.parametrize(("asked", "chosen"), [("auto", 0), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_is_chosen_by_its_number(monkeypatch: pytest.MonkeyPatch, asked: str, chosen: int) -> None:
    """Without one, torch refuses to make it the present one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert _get_device_index(choose_device(asked)) == chosen


@pytest.mark.parametrize("name", ["cuda:0", "mps"])
def test_few_sizes_are_computed_elsewhere_and_none_is_much_larger_than_asked_for(name: str) -> None:
    sizes = [size_computed(count, torch.device(name)) for count in range(1, 1025)]
    assert all(count <= size <= max(count + 1, 1.25 * count) for count, size in enumerate(sizes, start=1))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 4 * 10
    assert [size_computed(count, torch.device("cpu")) for count in (1, 5, 77)] == [1, 5, 77]


def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    for name, content in files.items():
        (tmp_path / name.replace("_", ".")).write_text(content)
    monkeypatch.setattr(devices, "CONTAINER", tmp_path)


def test_files_that_are_cached_count_as_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has just saved its replays leaves them in the cache, and the next one is not to be refused for it."""
    free = psutil.virtual_memory().available
    statistics = f"anon {GIB}\nfile {free}\nactive_file {free // 8}\ninactive_file {free // 4}\nshmem 7\n"
    container(tmp_path, monkeypatch, memory_max=f"{free}\n", memory_current=f"{free // 2}\n", memory_stat=statistics)
    assert usable_memory() == pytest.approx(free - free // 2 + free // 8 + free // 4, rel=0.05)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64), ("250000 100000", 2), ("20000 100000", 1)])
def test_a_container_s_quota_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    container(tmp_path, monkeypatch, cpu_max=quota)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert usable_cores() == cores
