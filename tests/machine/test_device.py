"""Devices, on simulated machines."""

import pytest
import torch
from torch.cuda._utils import _get_device_index

from machine.device import choose_device, gpu_memory_mb, gpu_utilization, is_nvidia, padded_size


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


@pytest.mark.parametrize("error", [ModuleNotFoundError("nvidia-ml-py"), RuntimeError("driver"), Exception("NVML")])
def test_without_the_package_or_the_driver_the_utilization_is_not_known(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(device: torch.device) -> int:
        raise error

    monkeypatch.setattr(torch.cuda, "utilization", fails)
    assert gpu_utilization(torch.device("cuda")) is None


def test_other_devices_have_no_figures_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu", "mps"):
        assert gpu_utilization(torch.device(name)) is None and gpu_memory_mb(torch.device(name)) is None
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert not is_nvidia(torch.device("cuda")) and gpu_utilization(torch.device("cuda")) is None
