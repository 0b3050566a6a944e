"""Replay files: large arrays and many byte strings, written without a copy in memory, memory-mapped when read.

A file is one line of JSON, the header, followed by the bytes of all arrays and by their checksum. Reading it executes
no code. `torch.save` is no alternative: it copies the byte strings of compressed replays several times in memory, and
with one tensor for each of them, loading takes ten times as long.
"""

import json
import mmap
import zlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from run_files.run_folder import write_atomically

CHECKSUM_BYTES = 4
PIECE = 2**20  # bytes that are read at once for the checksum

Content = Sequence[bytes | memoryview]  # the parts of one value; in the file they follow each other directly


def write_tensor_file(path: Path, state: dict[str, Any]) -> int:
    """Write a nested dict of plain values, contiguous uint8 tensors and lists of bytes. Returns the file's size."""
    contents: list[Content] = []
    header = json.dumps(_without_contents(state, contents)).encode() + b"\n"

    def write(file: BinaryIO) -> None:
        checksum = 0
        for part in chain([header], *contents):
            file.write(part)
            checksum = zlib.crc32(part, checksum)
        file.write(checksum.to_bytes(CHECKSUM_BYTES, "little"))

    write_atomically(path, write)
    return path.stat().st_size


def read_tensor_file(path: Path) -> dict[str, Any]:
    """The inverse of `write_tensor_file`. Tensors and memoryviews map the file, so reading it takes no memory.

    Changing them does not change the file. Raises OSError if the file is cut off or any bit of it has changed.
    """
    with path.open("rb") as file:
        left, checksum = path.stat().st_size - CHECKSUM_BYTES, 0
        while left > 0:  # not through the mapping, which would count as memory of this process
            piece = file.read(min(PIECE, left))
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
        if left < 0 or file.read() != checksum.to_bytes(CHECKSUM_BYTES, "little"):
            raise OSError(f"{path} is cut off, damaged, or not a replay file")
        file.seek(0)
        header = file.readline()
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=np.uint8)
    offset = len(header)

    def take(nbytes: int) -> NDArray[np.uint8]:
        nonlocal offset
        start, offset = offset, offset + nbytes
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

    state: dict[str, Any] = with_contents(json.loads(header))
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
