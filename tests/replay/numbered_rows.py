"""Rows whose every byte tells their number, so that a torn or a mixed-up one gives itself away."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.protocol import Drawn, Replay
from replay.unroll_layout import Rows, UnrollLayout
from run_files.replay_file import read_tensor_file, write_tensor_file

LAYOUT = UnrollLayout(unroll_length=3, frame_stack=2, frame_shape=(1, 3, 3), action_count=2, feature_size=2)
NBYTES = LAYOUT.nbytes
ENVIRONMENTS = 3
_PLACES = np.arange(NBYTES, dtype=np.int64)


def row(number: int) -> Rows:
    """What it says of its environment and of its policy's age is in range; no two of a million are alike anywhere."""
    content = _pattern(number)
    LAYOUT.array(content, "weight_version")[...] = number
    LAYOUT.array(content, "environment_id")[...] = number % ENVIRONMENTS
    LAYOUT.array(content, "dones")[...] = [number % 5 == place for place in range(LAYOUT.unroll_length)]
    return content


def _pattern(number: int) -> Rows:
    shifts = (_PLACES % 3) * 7  # 21 bits of the number in every three bytes, and the place in each
    return (((number >> shifts) + 31 * _PLACES) % 256).astype(np.uint8)


def numbers(rows: Rows) -> list[int]:
    found = [int(number) for number in LAYOUT.array(rows, "weight_version")]
    for number, content in zip(found, rows, strict=True):
        assert (content == row(number)).all(), "a row is torn"
    return found


def drawn(replay: Replay, updates: int = 0) -> list[int]:
    return draw(replay, updates)[0]


def draw(replay: Replay, updates: int = 0) -> tuple[list[int], Drawn]:
    out = np.full((replay.share, NBYTES), 0xAA, np.uint8)
    told = replay.draw(out, updates)
    return numbers(out), told


def counts(replay: Replay) -> NDArray[np.int64]:
    """How often each unroll that it keeps was drawn."""
    content: NDArray[np.int64] = replay.state_dict()["times_drawn"].numpy().view(np.int64)
    return content


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint makes of a state dict."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def through_a_tensor_file(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """What the file of the replays makes of a state dict."""
    write_tensor_file(path, state)
    return read_tensor_file(path)
