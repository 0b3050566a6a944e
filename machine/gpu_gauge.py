"""How busy the learner's GPU is, how much energy it uses, and how much of its memory this run uses."""

import time
from typing import Any

import torch

try:
    import pynvml
except ImportError:  # the package nvidia-ml-py is optional
    pynvml = None


class GpuGauge:
    """All figures are None without an NVIDIA GPU; all but the memory, too, without nvidia-ml-py or the driver."""

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        self._handle: Any = None
        self._has_energy_counter = True
        self._energy: float | None = None  # the latest reading of the driver's counter, in joules
        self._power_at = 0.0  # when the power was read, for a GPU without a counter
        if self._device is not None and pynvml is not None:
            # By its UUID: NVML and CUDA number the GPUs of a machine differently.
            uuid = torch.cuda.get_device_properties(self._device).uuid
            try:
                pynvml.nvmlInit()
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            except pynvml.NVMLError:
                self._handle = None

    def utilization(self) -> float | None:
        """Percent of the last second or less in which the GPU was busy."""
        if self._handle is None:
            return None
        try:
            return float(pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu)
        except pynvml.NVMLError:
            return None

    def joules(self) -> float | None:
        """Energy that all programs have used since the previous call; 0 in the first call, None if it is unknown.

        A GPU without an energy counter is taken to have had its present power since the previous call.
        """
        if self._handle is None:
            return None
        try:
            return self._counted_joules() if self._has_energy_counter else self._joules_by_power()
        except pynvml.NVMLError_NotSupported:
            if not self._has_energy_counter:
                return None
            self._has_energy_counter = False
            return self.joules()
        except pynvml.NVMLError:
            return None  # the next reading covers this time too

    def _counted_joules(self) -> float:
        now, before = pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000, self._energy
        self._energy = now
        return 0.0 if before is None else max(0.0, now - before)  # a reloaded driver counts from 0

    def _joules_by_power(self) -> float:
        watts, now, before = pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1000, time.monotonic(), self._power_at
        self._power_at = now
        return float(watts * (now - before)) if before else 0.0

    def memory_mb(self) -> float | None:
        """Megabytes of GPU memory that torch has reserved for this run."""
        return None if self._device is None else torch.cuda.memory_reserved(self._device) / 1e6
