"""What a policy sees of several environments: the latest frames of each, and what else its network needs.

Environments return their newest frame alone; the stacks are kept here, pixel by pixel (channels last), as networks read
them. In the network the same reordering would take a seventh of the time of a forward pass.

Where another process chooses the actions, what it sees and what it has chosen are rows in memory that both sides share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import ActorState, Decision
from replay.row_layout import RowLayout
from replay.unroll_layout import UnrollLayout
from workers.shared_array import SharedArray
from wrappers.environment import Observation

DECISION = ("action", "logits", "value", "features", "lstm_state")  # the fields of a result, in the order of `Decision`

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
            ActorState.at_start(environments, layout),
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

    def copy_from(self, other: "PolicyInputs") -> None:
        """Take over the inputs of as many other environments."""
        self.observations[:], self.vectors[:], self.uniforms[:] = other.observations, other.vectors, other.uniforms
        self.state.lstm_state[:] = other.state.lstm_state
        self.state.previous_actions[:] = other.state.previous_actions
        self.state.previous_rewards[:] = other.state.previous_rewards

    def select(self, environments: slice | Sequence[int]) -> "PolicyInputs":
        """The inputs of some environments: of a slice in the same memory, of numbers as a copy."""
        state = self.state
        return PolicyInputs(
            self.observations[environments],
            self.vectors[environments],
            ActorState(
                state.lstm_state[environments],
                state.previous_actions[environments],
                state.previous_rewards[environments],
                state.no_action,
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


class InferenceRows:
    """Shared rows `[worker, environment + 1, nbytes]` of requests and of results.

    A worker's environments form two groups, so that it can step one while it waits for the other; a single environment
    forms one group. The extra row is a group of its own, for the value of a state that a time limit cut off. A group's
    rows belong to the worker until it sends a request, then to the server until it sends the result.
    """

    def __init__(self, layout: UnrollLayout, workers: int, environments: int) -> None:
        self.layout = layout
        self.workers = workers
        self.environments = environments
        # What the policy needs to choose an action for one environment.
        self.request_layout = RowLayout(
            [
                ("observation", observation_shape(layout), "uint8"),
                ("vector", (layout.vector_length,), "float32"),
                ("uniform", layout.action_shape, "float64"),
                ("lstm_state", (2, layout.lstm_size), "float32"),
                ("previous_action", layout.action_shape, layout.action_dtype),
                ("previous_reward", (), "float32"),
            ]
        )
        # What it computed for one environment, and the version of its weights.
        self.result_layout = RowLayout(
            [
                ("action", layout.action_shape, layout.action_dtype.replace("int32", "int64")),
                ("logits", (layout.action_count,), "float32"),
                ("value", (), "float32"),
                ("features", (layout.feature_size,), "float16"),
                ("lstm_state", (2, layout.lstm_size), "float32"),
                ("weight_version", (), "int64"),
            ]
        )
        self.requests = SharedArray((workers, environments + 1, self.request_layout.nbytes))
        self.results = SharedArray((workers, environments + 1, self.result_layout.nbytes))

    def inputs(self, worker: int) -> PolicyInputs:
        """The requests of a worker, the extra one too, as inputs in the same memory."""
        fields = self.request_layout.arrays(self.requests.array[worker])
        tensors = {name: torch.from_numpy(array) for name, array in fields.items()}
        state = replace(state_in(tensors), no_action=torch.from_numpy(self.layout.no_action))
        return PolicyInputs(fields["observation"], tensors["vector"], state, tensors["uniform"])

    def decisions(self, worker: int) -> tuple[Decision, torch.Tensor]:
        """The results of a worker, the extra one too, and the versions of their weights, in the same memory."""
        results = self.result_layout.tensors(torch.from_numpy(self.results.array[worker]))
        return Decision(*(results[name] for name in DECISION)), results["weight_version"]

    @property
    def groups(self) -> tuple[slice, ...]:
        """The groups of environments; the last one is the extra row."""
        count, half = self.environments, (self.environments + 1) // 2
        halves = (slice(0, half), slice(half, count)) if count > 1 else (slice(0, 1),)
        return (*halves, slice(count, count + 1))


def state_in(request: Mapping[str, torch.Tensor]) -> ActorState:
    """The fields of requests that are an actor's state."""
    return ActorState(request["lstm_state"], request["previous_action"], request["previous_reward"])
