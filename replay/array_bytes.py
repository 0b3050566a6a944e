"""Numpy arrays as uint8 tensors and back: the replay file holds no other kind of array."""

from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray


def array_to_bytes(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array.view(np.uint8))


def array_from_bytes(content: torch.Tensor, dtype: DTypeLike) -> NDArray[Any]:
    return content.numpy().copy().view(dtype)
