"""The policy that chooses a worker's actions: its interface, and a copy of the network in the worker's process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import torch

from agents.acting import Actor, Decision
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs


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

    def value_of(self, environment: int) -> float:
        """The value estimate of what an environment shows now, where a time limit has cut the episode off."""


class LocalPolicy:
    """Chooses actions with a copy of the network, for all environments at once."""

    def __init__(
        self, actor: Actor, layout: UnrollLayout, environments: int, load_newest: Callable[[], int] = lambda: 0
    ) -> None:
        self.groups: Sequence[slice] = (slice(0, environments),)
        self.inputs = PolicyInputs.at_start(environments, layout)
        self._no_uniforms = torch.zeros(1, *layout.action_shape, dtype=torch.float64)  # for `value_of`
        self._actor = actor
        self._load_newest = load_newest
        self._version = 0

    def refresh(self) -> None:
        self._version = self._load_newest()

    def request(self, group: int) -> None:
        """Nothing to do: `result` computes the actions."""

    def result(self, group: int) -> tuple[Decision, int]:
        return self._act(self.inputs.select(self.groups[group])), self._version

    def value_of(self, environment: int) -> float:
        inputs = self.inputs.select(slice(environment, environment + 1))
        return float(self._act(replace(inputs, uniforms=self._no_uniforms)).values)

    def _act(self, inputs: PolicyInputs) -> Decision:
        return self._actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)
