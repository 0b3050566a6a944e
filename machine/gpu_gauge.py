"""How busy the learner's GPU is, and how much of its memory this run uses."""

from typing import Any

import torch

try:
    import pynvml
except ImportError:  # the package nvidia-ml-py is optional
    pynvml = None


class GpuGauge:
    """Both figures are None without an NVIDIA GPU; the utilization, too, without nvidia-ml-py or the driver."""

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        self._handle: Any = None
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

    def memory_mb(self) -> float | None:
        """Megabytes of GPU memory that torch has reserved for this run."""
        return None if self._device is None else torch.cuda.memory_reserved(self._device) / 1e6
