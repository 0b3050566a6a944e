"""The policy that chooses a worker's actions: its interface, and a copy of the network in the worker's process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from agents.acting import Actor, ActorState, Decision
from replay.unroll_layout import UnrollLayout
from workers.observations import Observations, as_batch, observation_shape, put_observation
from wrappers.environment import Observation


@dataclass(frozen=True)
class PolicyInputs:
    """What the policy sees of E environments; the rollout writes here before each request."""

    observations: Observations  # [E, H, W, S*C]
    vectors: torch.Tensor  # [E, D]
    state: ActorState
    uniforms: torch.Tensor  # [E, ...] float64, as many for each environment as an action needs

    @classmethod
    def at_start(cls, environments: int, layout: UnrollLayout) -> "PolicyInputs":
        return cls(
            np.zeros((environments, *observation_shape(layout)), np.uint8),
            torch.zeros(environments, layout.vector_size),
            ActorState.at_start(environments, layout.lstm_size, layout.action_shape, layout.action_dtype),
            torch.zeros(environments, *layout.action_shape, dtype=torch.float64),
        )

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

    def value_of(self, environment: int, seen: Observation) -> float:
        """The value estimate of an observation at which a time limit has cut the episode off."""


class LocalPolicy:
    """Chooses actions with a copy of the network, for all environments at once."""

    def __init__(
        self, actor: Actor, layout: UnrollLayout, environments: int, load_newest: Callable[[], int] = lambda: 0
    ) -> None:
        self.groups: Sequence[slice] = (slice(0, environments),)
        self.inputs = PolicyInputs.at_start(environments, layout)
        self._extra = PolicyInputs.at_start(1, layout)  # for `value_of`
        self._actor = actor
        self._load_newest = load_newest
        self._version = 0

    def refresh(self) -> None:
        self._version = self._load_newest()

    def request(self, group: int) -> None:
        """Nothing to do: `result` computes the actions."""

    def result(self, group: int) -> tuple[Decision, int]:
        return self._act(self.inputs.select(self.groups[group])), self._version

    def value_of(self, environment: int, seen: Observation) -> float:
        extra = self._extra
        put_observation(extra.observations[0], extra.vectors[0].numpy(), seen)
        own = self.inputs.select(slice(environment, environment + 1))
        return float(self._act(replace(extra, state=own.state)).values)

    def _act(self, inputs: PolicyInputs) -> Decision:
        observations = as_batch(torch.from_numpy(inputs.observations))
        return self._actor.act(observations, inputs.state, inputs.uniforms, inputs.vectors)
