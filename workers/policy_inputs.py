"""What a policy sees of several environments: the latest frames of each, and what else its network needs.

Environments return their newest frame alone; the stacks are kept here, pixel by pixel (channels last), as networks read
them. In the network the same reordering would take a seventh of the time of a forward pass.
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import ActorState
from replay.unroll_layout import UnrollLayout
from wrappers.environment import Observation

Observations = NDArray[np.uint8]  # [..., H, W, S*C]


@dataclass(frozen=True)
class PolicyInputs:
    """What the policy sees of E environments."""

    observations: Observations  # [E, H, W, S*C]
    vectors: torch.Tensor  # [E, D]
    state: ActorState
    uniforms: torch.Tensor  # [E, ...] float64, as many for each environment as an action needs

    @classmethod
    def at_start(cls, environments: int, layout: UnrollLayout) -> "PolicyInputs":
        return cls(
            np.zeros((environments, *observation_shape(layout)), np.uint8),
            torch.zeros(environments, layout.vector_length),
            ActorState.at_start(environments, layout.lstm_size, layout.action_shape, layout.action_dtype),
            torch.zeros(environments, *layout.action_shape, dtype=torch.float64),
        )

    @property
    def pictures(self) -> torch.Tensor:
        """The observations as networks take them: `[E, S*C, H, W]`, the same memory."""
        return as_batch(torch.from_numpy(self.observations))

    def show(self, environment: int, seen: Observation, starts: bool) -> None:
        """Put the newest observation of an environment in place, the first one of an episode if it `starts`."""
        if seen.frame.size:
            add_frame(self.observations[environment], seen.frame, starts)
        if seen.vector.size:
            self.vectors.numpy()[environment] = seen.vector

    def select(self, environments: slice) -> "PolicyInputs":
        """The inputs of some environments, in the same memory."""
        state = self.state
        return PolicyInputs(
            self.observations[environments],
            self.vectors[environments],
            ActorState(
                state.lstm_state[environments],
                state.previous_actions[environments],
                state.previous_rewards[environments],
            ),
            self.uniforms[environments],
        )


def observation_shape(layout: UnrollLayout) -> tuple[int, int, int]:
    channels, height, width = layout.frame_shape
    return height, width, layout.frame_stack * channels


def add_frame(stack: Observations, frame: NDArray[np.uint8], starts: bool) -> None:
    """Add `frame [C, H, W]` to the `stack [H, W, S*C]`, whose oldest one goes; with `starts`, put it in all places."""
    channels = len(frame)
    newest = stack.shape[-1] - channels
    if newest and not starts:
        # Of each pixel all frames move by one; what moves into the newest one from the next pixel is overwritten.
        flat = stack.reshape(-1)
        flat[:-channels] = flat[channels:]
    for first in range(0 if starts else newest, newest + 1, channels):
        for channel, plane in enumerate(frame):
            cv2.insertChannel(np.ascontiguousarray(plane), stack, first + channel)


def as_stacks(observations: Observations, layout: UnrollLayout) -> NDArray[Any]:
    """A view `[E, S, C, H, W]`."""
    count, height, width, _ = observations.shape
    frames = observations.reshape(count, height, width, layout.frame_stack, layout.frame_shape[0])
    return frames.transpose(0, 3, 4, 1, 2)


def as_batch(observations: torch.Tensor) -> torch.Tensor:
    """The shape that networks take, on any device: `[E, H, W, S*C]` → `[E, S*C, H, W]`, the same memory."""
    return observations.permute(0, 3, 1, 2)
