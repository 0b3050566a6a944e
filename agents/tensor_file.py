"""Large arrays in a file of their own: written piece by piece, never doubled in memory, and mapped when read.

A file is one line of JSON, which says what the arrays are, and then their bytes. Nothing in it is ever executed.
"""

import json
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from agents.run_folder import write_atomically

PIECE = 16 * 2**20  # bytes between two looks at whether to go on


class GivenUpError(Exception):
    """The writer was asked to stop before the file was whole; nothing is left of it."""


class DamagedFileError(Exception):
    """The file is not whole, or not one of these."""


def write_tensor_file(path: Path, state: dict[str, Any], give_up: Callable[[], bool] = lambda: False) -> int:
    """Write a nested dict of plain values and contiguous uint8 tensors; return the file's size in bytes."""
    tensors: list[torch.Tensor] = []
    header = json.dumps(_without_tensors(state, tensors)).encode() + b"\n"

    def write(file: BinaryIO) -> None:
        file.write(header)
        for tensor in tensors:
            content = tensor.numpy().reshape(-1).data
            for start in range(0, len(content), PIECE):
                if give_up():
                    raise GivenUpError
                file.write(content[start : start + PIECE])
                file.flush()
                os.fsync(file.fileno())  # one long sync at the end could not be given up

    write_atomically(path, write)
    return len(header) + sum(tensor.numel() for tensor in tensors)


def read_tensor_file(path: Path) -> dict[str, Any]:
    """The inverse; the tensors show the file itself, so that reading them takes no memory of its own."""
    with path.open("rb") as file:
        header = file.readline()
        size = path.stat().st_size
        if not header.endswith(b"\n"):
            raise DamagedFileError(f"{path} has no header")
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=np.uint8)
    offset = len(header)

    def with_tensors(value: Any) -> Any:
        nonlocal offset
        if not isinstance(value, dict):
            return [with_tensors(item) for item in value] if isinstance(value, list) else value
        if set(value) != {"tensor"}:
            return {key: with_tensors(item) for key, item in value.items()}
        shape = value["tensor"]
        start, offset = offset, offset + int(np.prod(shape))
        if offset > size:
            raise DamagedFileError(f"{path} is cut off")
        return torch.from_numpy(content[start:offset].reshape(shape))

    try:
        state = with_tensors(json.loads(header))
    except ValueError as error:
        raise DamagedFileError(f"{path} has no readable header") from error
    if not isinstance(state, dict):
        raise DamagedFileError(f"{path} is none of ours")
    return state


def _without_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.uint8 or not value.is_contiguous():
            raise TypeError(f"only contiguous uint8 tensors go into a tensor file, not {value.dtype}")
        tensors.append(value)
        return {"tensor": list(value.shape)}
    if isinstance(value, dict):
        return {key: _without_tensors(item, tensors) for key, item in value.items()}
    return [_without_tensors(item, tensors) for item in value] if isinstance(value, list) else value
