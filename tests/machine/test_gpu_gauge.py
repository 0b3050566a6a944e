"""The GPU gauge without a GPU, with a fake of the package pynvml, and on a real GPU where there is one."""

import types

import pytest
import torch

from machine import gpu_gauge
from machine.gpu_gauge import GpuGauge


class NVMLError(Exception):
    pass


class FakeNvml:
    """Two GPUs; the second one is the learner's."""

    NVMLError = NVMLError

    def __init__(self, *, driver: bool = True) -> None:
        self.driver = driver
        self.utilization: list[int] = []
        self.started = False

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NVMLError("Driver Not Loaded")
        self.started = True

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        if not self.started or uuid not in ("GPU-one", "GPU-two"):
            raise NVMLError("Not Found")
        return ["GPU-one", "GPU-two"].index(uuid)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> types.SimpleNamespace:  # noqa: N802
        if handle != 1 or not self.utilization:
            raise NVMLError("GPU is lost")
        return types.SimpleNamespace(gpu=self.utilization.pop(0), memory=3)


@pytest.fixture
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(uuid="two"))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 812_000_000)


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_other_devices_have_no_figures(device: str) -> None:
    gauge = GpuGauge(torch.device(device))
    assert gauge.utilization() is None
    assert gauge.memory_mb() is None


@pytest.mark.usefixtures("_a_gpu")
def test_the_utilization_is_read_from_the_learners_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr(gpu_gauge, "pynvml", nvml)
    gauge = GpuGauge(torch.device("cuda"))
    nvml.utilization = [45]
    assert gauge.utilization() == 45.0
    assert gauge.utilization() is None, "an error of the driver"
    assert gauge.memory_mb() == 812.0


@pytest.mark.usefixtures("_a_gpu")
@pytest.mark.parametrize("nvml", [None, FakeNvml(driver=False)])
def test_without_the_package_or_the_driver_only_the_memory_is_known(
    nvml: FakeNvml | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_gauge, "pynvml", nvml)
    gauge = GpuGauge(torch.device("cuda"))
    assert gauge.utilization() is None
    assert gauge.memory_mb() == 812.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_has_both_figures() -> None:
    held = torch.zeros(10_000_000, device="cuda")
    gauge = GpuGauge(torch.device("cuda"))
    utilization, memory = gauge.utilization(), gauge.memory_mb()
    assert utilization is None or 0 <= utilization <= 100
    assert memory is not None and memory >= held.nbytes / 1e6
