"""The policy that chooses a worker's actions: its interface, and a copy of the network in the worker's process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor, ActorState, Decision
from replay.unroll_layout import UnrollLayout
from workers.observations import Observations, as_batch, observation_shape, put_stack


@dataclass(frozen=True)
class PolicyInputs:
    """What the policy sees of E environments; the rollout writes here before each request."""

    observations: Observations  # [E, H, W, S*C]
    state: ActorState
    uniforms: torch.Tensor  # [E] float64

    def select(self, environments: slice) -> "PolicyInputs":
        """The inputs of some environments, in the same memory."""
        state = self.state
        return PolicyInputs(
            self.observations[environments],
            ActorState(
                state.lstm_state[environments],
                state.previous_actions[environments],
                state.previous_rewards[environments],
            ),
            self.uniforms[environments],
        )


class ActingPolicy(Protocol):
    """Chooses actions for groups of environments, one group at a time.

    From `request` until `result`, the group's inputs must not change. A result is valid until the group's next request.
    """

    groups: Sequence[slice]
    inputs: PolicyInputs

    def refresh(self) -> None:
        """Load the newest weights; called before each unroll."""

    def request(self, group: int) -> None:
        """Ask for the actions of one group."""

    def result(self, group: int) -> tuple[Decision, int]:
        """Wait for the requested actions; also return the version of the weights that chose them."""

    def value_of(self, environment: int, observation: NDArray[np.uint8]) -> float:
        """The value estimate of an observation `[S, C, H, W]` at which a time limit has cut the episode off."""


class LocalPolicy:
    """Chooses actions with a copy of the network, for all environments at once."""

    def __init__(
        self, actor: Actor, layout: UnrollLayout, environments: int, load_newest: Callable[[], int] = lambda: 0
    ) -> None:
        state = ActorState.at_start(environments, layout.lstm_size)
        uniforms = torch.zeros(environments, dtype=torch.float64)
        self.groups: Sequence[slice] = (slice(0, environments),)
        self.inputs = PolicyInputs(np.zeros((environments, *observation_shape(layout)), np.uint8), state, uniforms)
        self._actor = actor
        self._load_newest = load_newest
        self._version = 0

    def refresh(self) -> None:
        self._version = self._load_newest()

    def request(self, group: int) -> None:
        """Nothing to do: `result` computes the actions."""

    def result(self, group: int) -> tuple[Decision, int]:
        inputs = self.inputs.select(self.groups[group])
        observations = as_batch(torch.from_numpy(inputs.observations))
        return self._actor.act(observations, inputs.state, inputs.uniforms), self._version

    def value_of(self, environment: int, observation: NDArray[np.uint8]) -> float:
        inputs = self.inputs.select(slice(environment, environment + 1))
        stack = np.empty_like(inputs.observations)
        put_stack(stack[0], observation)
        return float(self._actor.act(as_batch(torch.from_numpy(stack)), inputs.state, torch.zeros(1)).values)
