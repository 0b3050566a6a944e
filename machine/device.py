"""The device and precision to compute with, and the learner's CPU threads."""

import os
from pathlib import Path

import torch

from machine.capacity import usable_cores
from options.rules import UsageError


def choose_device(name: str) -> torch.device:
    """The device of `--device`; `auto` is CUDA if there is a CUDA device, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)  # some torch functions need the index
        if device.index >= torch.cuda.device_count():
            found = torch.cuda.device_count()
            raise UsageError(
                f"--device={name} is not on this machine, which has {found} CUDA device(s); "
                "--device=auto would be right."
            )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device=mps is not on this machine; --device=auto would be right.")
    return device


def prepare_torch(device: torch.device, repeatable: bool) -> None:
    """Set torch up for a device; with `repeatable`, the same computation gives the same bits every time."""
    if repeatable:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # CUDA reads it when it starts, which is later
    # The same as use_deterministic_algorithms, which loads torch's compiler. That takes as long as loading torch.
    torch.set_deterministic_debug_mode("error" if repeatable else "default")
    torch.backends.cudnn.benchmark = not repeatable
    torch.backends.cudnn.allow_tf32 = False  # full float32, without TF32
    if device.type == "cuda":
        torch.cuda.set_device(device)  # the default for events and streams


def padded_size(count: int, device: torch.device) -> int:
    """The batch size to compute for `count` rows. A GPU spends time on each new size, so few sizes are used.

    There are four sizes between one power of two and the next. On a CPU the size is `count`.
    """
    if device.type == "cpu":
        return count
    step = max(1, (1 << (count - 1).bit_length()) // 8)
    return -(-count // step) * step


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The dtype of `--precision` on this device; `auto` is bfloat16 where the hardware multiplies it."""
    if name == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def has_fast_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    cpu_info = Path("/proc/cpuinfo")  # torch has no public function for this
    if device.type != "cpu" or not cpu_info.exists():
        return False
    return any(flag in cpu_info.read_text() for flag in (" avx512_bf16", " amx_bf16"))


def is_nvidia(device: torch.device) -> bool:
    """Torch calls the GPUs of AMD cuda, too. What was tried on NVIDIA's only is not used there."""
    return device.type == "cuda" and torch.version.hip is None


def gpu_utilization(device: torch.device) -> float | None:
    """Percent of the last second or less in which the GPU was busy.

    None without an NVIDIA GPU, its driver or the package nvidia-ml-py.
    """
    if not is_nvidia(device):
        return None
    try:
        return float(torch.cuda.utilization(device))
    except Exception:  # also the driver's own errors, which the optional package declares
        return None


def gpu_memory_mb(device: torch.device) -> float | None:
    """Megabytes of GPU memory that torch has reserved for this process."""
    return torch.cuda.memory_reserved(device) / 1e6 if device.type == "cuda" else None


def learner_threads(device: torch.device, alone: bool = False) -> int:
    """CPU threads of the learner: half the cores if it computes on the CPU (workers need the rest), few with a GPU.

    A learner that is `alone`, without workers on its machine, gets all cores.
    """
    if device.type != "cpu":
        return min(4, usable_cores())
    return usable_cores() if alone else max(1, usable_cores() // 2)
