"""Constants on the device that computes with them."""

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def on_device(constant: NDArray[Any], device: torch.device) -> torch.Tensor:
    """A tensor of a small array, which is copied to the device once. It must not be changed."""
    return _copied(constant.tobytes(), constant.dtype.str, constant.shape, device)


@cache  # never freed, because a CUDA graph may read them
@torch.inference_mode(False)  # an actor may be the first to ask, and the losses need a tensor with history
def _copied(content: bytes, dtype: str, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype).reshape(shape).copy()).to(device)
