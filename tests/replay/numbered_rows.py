"""Rows that carry their own number in every word, so that a torn or a mixed-up one gives itself away."""

import io
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from replay.protocol import Replay
from replay.trajectory import Rows, UnrollSpec

SPEC = UnrollSpec(unroll_length=3, frame_stack=2, frame_shape=(1, 4, 4), action_count=1)
NBYTES = SPEC.nbytes
WORDS = NBYTES // 8


def row(number: int) -> Rows:
    return np.full(WORDS, number, np.int64).view(np.uint8)


def numbers(rows: Rows) -> list[int]:
    words: NDArray[np.int64] = rows.view(np.int64)
    assert words.shape == (len(rows), WORDS)
    assert (words == words[:, :1]).all(), "a row is torn"
    return [int(number) for number in words[:, 0]]


def drawn(replay: Replay) -> list[int]:
    out = np.full((replay.share, NBYTES), 0xAA, np.uint8)
    replay.draw(out)
    return numbers(out)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint makes of a state dict."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded
