"""How busy the learner's graphics card is, as far as the system tells without any further package."""

import ctypes

import torch


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class GpuGauge:
    """Says None to everything that there is no GPU for, or no driver's library to ask."""

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        self._nvml: ctypes.CDLL | None = None
        self._handle = ctypes.c_void_p()
        if self._device is not None:
            self._open(str(torch.cuda.get_device_properties(self._device).uuid))

    def _open(self, uuid: str) -> None:
        """NVML comes with every driver of NVIDIA's; it numbers the cards in its own way, so the card is named."""
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if nvml.nvmlInit_v2() == 0:
            name = f"GPU-{uuid}".encode()
            if nvml.nvmlDeviceGetHandleByUUID(name, ctypes.byref(self._handle)) == 0:
                self._nvml = nvml

    def utilization(self) -> float | None:
        """Percent of the last moments, a second at most, in which the card did something."""
        rates = _Rates()
        if self._nvml is None or self._nvml.nvmlDeviceGetUtilizationRates(self._handle, ctypes.byref(rates)) != 0:
            return None
        return float(rates.gpu)

    def memory_mb(self) -> float | None:
        """Megabytes of the card that torch holds for this run."""
        return None if self._device is None else torch.cuda.memory_reserved(self._device) / 1e6
