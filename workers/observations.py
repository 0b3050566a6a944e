"""The newest observations of several environments, in the order in which networks read memory: pixel by pixel.

Environments give a stack frame by frame. Turning it costs nothing where it is written down, once and by OpenCV; left to
the network, it was a seventh of the time of a decision.
"""

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from replay.unroll_layout import UnrollLayout

Observations = NDArray[np.uint8]  # [..., H, W, S*C]


def observation_shape(layout: UnrollLayout) -> tuple[int, int, int]:
    channels, height, width = layout.frame_shape
    return height, width, layout.frame_stack * channels


def put_stack(place: Observations, stack: NDArray[np.uint8]) -> None:
    """Write `stack [S, C, H, W]` to `place [H, W, S*C]`."""
    cv2.merge(list(stack.reshape(-1, *stack.shape[2:])), place)


def as_stacks(observations: Observations, layout: UnrollLayout) -> NDArray[Any]:
    """A view `[E, S, C, H, W]`."""
    count, height, width, _ = observations.shape
    apart = observations.reshape(count, height, width, layout.frame_stack, -1)
    return apart.transpose(0, 3, 4, 1, 2)


def as_batch(observations: torch.Tensor) -> torch.Tensor:
    """What a network takes, on any device: `[E, H, W, S*C]` → `[E, S*C, H, W]`, the same memory."""
    return observations.permute(0, 3, 1, 2)
