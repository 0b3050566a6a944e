"""Unrolls with numbers. Every byte depends on the number, so a row that contains parts of two unrolls is detected."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.mix import Drawn, Replay
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.replay_file import read_tensor_file, write_tensor_file

LAYOUT = UnrollLayout(unroll_length=3, frame_stack=2, frame_shape=(1, 3, 3), action_sizes=(2,), feature_size=2)
NBYTES = LAYOUT.nbytes
ENVIRONMENTS = 3
_INDICES = np.arange(NBYTES, dtype=np.int64)


def row(number: int) -> Rows:
    """Its weight version is its number. Of a million rows, no two are equal in any three neighbouring bytes."""
    content = _pattern(number)
    LAYOUT.array(content, "weight_version")[...] = number
    LAYOUT.array(content, "environment_id")[...] = number % ENVIRONMENTS
    LAYOUT.array(content, "dones")[...] = [number % 5 == place for place in range(LAYOUT.unroll_length)]
    return content


def _pattern(number: int) -> Rows:
    shifts = (_INDICES % 3) * 7  # every three bytes hold 21 bits of the number; the index is added
    return (((number >> shifts) + 31 * _INDICES) % 256).astype(np.uint8)


def numbers(rows: Rows) -> list[int]:
    found = [int(number) for number in LAYOUT.array(rows, "weight_version")]
    for number, content in zip(found, rows, strict=True):
        assert (content == row(number)).all(), "a row is mixed up"
    return found


def drawn(replay: Replay, updates: int = 0) -> list[int]:
    return draw(replay, updates)[0]


def draw(replay: Replay, updates: int = 0) -> tuple[list[int], Drawn]:
    out = np.full((replay.share, NBYTES), 0xAA, np.uint8)
    figures = replay.draw(out, updates)
    return numbers(out), figures


def counts(replay: Replay) -> NDArray[np.int64]:
    """How often each unroll in the replay was drawn: `[len(replay)]`."""
    content: NDArray[np.int64] = replay.state_dict()["times_drawn"].numpy().view(np.int64)
    return content


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """Save and load a state dict as checkpoints do."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def through_a_tensor_file(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """Save and load a state dict as the replay file does."""
    write_tensor_file(path, state)
    return read_tensor_file(path)
