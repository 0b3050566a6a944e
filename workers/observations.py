"""The newest observations of several environments, stored pixel by pixel (channels last), as networks read them.

Environments return a stack frame by frame. OpenCV reorders it while it is copied; in the network the same reordering
would take a seventh of the time of a forward pass.
"""

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from replay.unroll_layout import UnrollLayout
from wrappers.environment import Observation

Observations = NDArray[np.uint8]  # [..., H, W, S*C]


def observation_shape(layout: UnrollLayout) -> tuple[int, int, int]:
    channels, height, width = layout.frame_shape
    return height, width, layout.frame_stack * channels


def put_observation(pictures: Observations, vector: NDArray[np.float32], seen: Observation) -> None:
    """Write the parts of one observation to `pictures [H, W, S*C]` and `vector [D]`."""
    if pictures.size:
        put_stack(pictures, seen.frames)
    if vector.size:
        vector[:] = seen.vector


def put_stack(out: Observations, stack: NDArray[np.uint8]) -> None:
    """Write `stack [S, C, H, W]` to `out [H, W, S*C]`."""
    cv2.merge(list(stack.reshape(-1, *stack.shape[2:])), out)


def as_stacks(observations: Observations, layout: UnrollLayout) -> NDArray[Any]:
    """A view `[E, S, C, H, W]`."""
    count, height, width, _ = observations.shape
    frames = observations.reshape(count, height, width, layout.frame_stack, layout.frame_shape[0])
    return frames.transpose(0, 3, 4, 1, 2)


def as_batch(observations: torch.Tensor) -> torch.Tensor:
    """The shape that networks take, on any device: `[E, H, W, S*C]` → `[E, S*C, H, W]`, the same memory."""
    return observations.permute(0, 3, 1, 2)
