"""Several arrays one after another in a row of bytes: the name, shape and dtype of each field is declared once.

Below are arrays in files, which hold bytes alone, and small arrays on the device that computes with them.
"""

import hashlib
from collections.abc import Sequence
from functools import cache, cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

Rows = NDArray[np.uint8]
Declared = tuple[str, tuple[int, ...], str]  # name, shape, dtype

ALIGNMENT = 64


class Field(NamedTuple):
    """One array inside a row."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


class RowLayout:
    """Offsets of the declared fields. Rows are arrays of bytes; fields are views of them."""

    def __init__(self, declared: Sequence[Declared]) -> None:
        self.declared = declared

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        fields, offset = [], 0
        for name, shape, dtype in self.declared:
            field = Field(name, shape, dtype, offset)
            fields.append(field)
            offset += -(-field.nbytes // ALIGNMENT) * ALIGNMENT
        return tuple(fields)

    @cached_property
    def nbytes(self) -> int:
        last = self.fields[-1]
        return last.offset + -(-last.nbytes // ALIGNMENT) * ALIGNMENT

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def fingerprint(self) -> str:
        """Two layouts have the same fingerprint if and only if their fields are the same."""
        return hashlib.sha256(repr(self.fields).encode()).hexdigest()[:16]

    def array(self, rows: Rows, name: str) -> NDArray[Any]:
        """A view of one field of rows `[..., nbytes]` → `[..., *shape]`. Writing to the view changes the rows."""
        field = self.by_name[name]
        flat = rows[..., field.offset : field.offset + field.nbytes].view(field.dtype)
        return flat.reshape((*rows.shape[:-1], *field.shape))

    def arrays(self, rows: Rows) -> dict[str, NDArray[Any]]:
        """Views of all fields of rows `[..., nbytes]`, each `[..., *shape]`."""
        return {field.name: self.array(rows, field.name) for field in self.fields}

    def tensors(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of the fields of rows `[B, nbytes]` on any device, each `[B, *shape]`."""
        if rows.shape[1:] != (self.nbytes,):
            raise ValueError(f"rows of {self.nbytes} bytes expected, not a tensor of shape {tuple(rows.shape)}")
        views: dict[str, torch.Tensor] = {}
        for field in self.fields:
            flat = rows[:, field.offset : field.offset + field.nbytes].view(getattr(torch, field.dtype))
            views[field.name] = flat.reshape(rows.shape[0], *field.shape)
        return views


def array_to_bytes(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array.view(np.uint8))


def array_from_bytes(content: torch.Tensor, dtype: DTypeLike) -> NDArray[Any]:
    return content.numpy().copy().view(dtype)


def on_device(constant: NDArray[Any], device: torch.device) -> torch.Tensor:
    """A tensor of a small array, which is copied to the device once. It must not be changed."""
    return _copied(constant.tobytes(), constant.dtype.str, constant.shape, device)


@cache  # never freed, because a CUDA graph may read them
@torch.inference_mode(False)  # an actor may be the first to ask, and the losses need a tensor with history
def _copied(content: bytes, dtype: str, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype).reshape(shape).copy()).to(device)
