"""Replay files: large arrays and many byte strings, written piece by piece without a copy, memory-mapped when read.

A file is one line of JSON, the header, followed by the bytes of all arrays. Reading it executes no code.
"""

import json
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from run_files.run_folder import write_atomically

PIECE = 16 * 2**20  # bytes that are written between two checks of `cancelled`

Content = Sequence[bytes | memoryview]  # the parts of one value; in the file they follow each other directly


class WriteCancelledError(Exception):
    """The writer was asked to stop before the file was complete. The incomplete file has been removed."""


class DamagedFileError(Exception):
    """The file is incomplete, damaged, or not a replay file."""


def write_tensor_file(path: Path, state: dict[str, Any], cancelled: Callable[[], bool] = lambda: False) -> int:
    """Write a nested dict of plain values, contiguous uint8 tensors and lists of bytes. Returns the file's size.

    Raises WriteCancelledError as soon as `cancelled()` returns True.
    """
    contents: list[Content] = []
    header = json.dumps(_without_contents(state, contents)).encode() + b"\n"

    def write(file: BinaryIO) -> None:
        file.write(header)
        for piece in _pieces(contents):
            if cancelled():
                raise WriteCancelledError
            file.write(piece)
            file.flush()
            os.fsync(file.fileno())  # a single long sync at the end could not be cancelled

    write_atomically(path, write)
    return path.stat().st_size


def read_tensor_file(path: Path) -> dict[str, Any]:
    """The inverse of `write_tensor_file`. Tensors and memoryviews map the file, so reading it takes no memory.

    Changing them does not change the file.
    """
    with path.open("rb") as file:
        header = file.readline()
        size = path.stat().st_size
        if not header.endswith(b"\n"):
            raise DamagedFileError(f"{path} has no header")
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=np.uint8)
    offset = len(header)

    def take(nbytes: int) -> NDArray[np.uint8]:
        nonlocal offset
        start, offset = offset, offset + nbytes
        if not start <= offset <= size:
            raise DamagedFileError(f"{path} is cut off")
        return content[start:offset]

    def with_contents(value: Any) -> Any:
        if not isinstance(value, dict):
            return [with_contents(item) for item in value] if isinstance(value, list) else value
        if set(value) == {"tensor"}:
            return torch.from_numpy(take(int(np.prod(value["tensor"]))).reshape(value["tensor"]))
        if set(value) == {"bytes"}:
            lengths = take(8 * int(value["bytes"])).copy().view(np.int64)
            return [take(length).data for length in lengths.tolist()]
        return {key: with_contents(item) for key, item in value.items()}

    try:
        state = with_contents(json.loads(header))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedFileError(f"{path} has no readable header") from error
    if not isinstance(state, dict):
        raise DamagedFileError(f"{path} is not a replay file")
    return state


def _without_contents(value: Any, contents: list[Content]) -> Any:
    """The header: shapes in place of tensors, counts in place of lists of bytes. Appends their data to `contents`.

    The data of a list of bytes begins with the lengths of its items.
    """
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.uint8 or not value.is_contiguous():
            raise TypeError(f"only contiguous uint8 tensors go into a replay file, not {value.dtype}")
        contents.append([value.numpy().reshape(-1).data])
        return {"tensor": list(value.shape)}
    if isinstance(value, dict):
        return {key: _without_contents(item, contents) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, bytes) for item in value):
        contents += [[np.array([len(item) for item in value], np.int64).tobytes()], value]
        return {"bytes": len(value)}
    return [_without_contents(item, contents) for item in value]


def _pieces(contents: Sequence[Content]) -> Iterator[bytes | bytearray | memoryview]:
    """All contents in order, in pieces of about PIECE bytes: large parts are cut, small parts are joined."""
    joined = bytearray()
    for part in chain.from_iterable(contents):
        for start in range(0, len(part), PIECE):
            piece = part[start : start + PIECE]
            if joined and len(joined) + len(piece) > PIECE:
                yield joined
                joined = bytearray()
            if len(piece) == PIECE:
                yield piece
            else:
                joined += piece
    if joined:
        yield joined
