"""Who decides for a worker's environments: its own copy of the policy, or somebody that it asks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor, ActorState, Decision
from replay.unroll_layout import UnrollLayout
from workers.observations import Observations, as_batch, observation_shape, put_stack
from workers.shared_weights import NOT_PUBLISHED, SharedWeights


@dataclass(frozen=True)
class Questions:
    """What a decision depends on, of E environments; whoever steps them keeps it up to date."""

    observations: Observations  # [E, H, W, S*C]
    state: ActorState
    uniforms: torch.Tensor  # [E] float64

    def select(self, environments: slice) -> "Questions":
        """Of some environments, in the same memory."""
        state = self.state
        return Questions(
            self.observations[environments],
            ActorState(
                state.lstm_state[environments],
                state.previous_actions[environments],
                state.previous_rewards[environments],
            ),
            self.uniforms[environments],
        )


class Decider(Protocol):
    """Decides for groups of environments: each is asked for and answered on its own.

    From `ask` until `answer`, the group's questions stay as they are. The answer is good until the group's next `ask`.
    """

    groups: Sequence[slice]
    questions: Questions

    def refresh(self) -> None:
        """Called before each unroll: act with the newest weights."""

    def ask(self, group: int) -> None:
        """Want a decision for one of the groups."""

    def answer(self, group: int) -> tuple[Decision, int]:
        """The decision that was asked for, and the version of the weights that made it."""

    def value_of(self, environment: int, observation: NDArray[np.uint8]) -> float:
        """What the policy expects from another observation `[S, C, H, W]`, in the place of an environment's own."""


class NewestWeights:
    """Keeps an actor at the newest of the learner's weights."""

    def __init__(self, weights: SharedWeights, actor: Actor, device: torch.device) -> None:
        self._weights = weights
        self._actor = actor
        self._device = device
        self._flat = torch.zeros(weights.weight_count, pin_memory=device.type == "cuda")
        self._version = NOT_PUBLISHED

    def load(self) -> int:
        """Load what is newer, if anything is; return the version that the actor has now."""
        newest = self._weights.copy_newer(self._version, self._flat)
        if newest != self._version:
            self._actor.load(self._flat.to(self._device))  # in one piece
            self._version = newest
        return self._version


class LocalDecider:
    """A copy of the policy decides for all environments at once, and while it does, nobody steps."""

    def __init__(
        self, actor: Actor, layout: UnrollLayout, environments: int, load_newest: Callable[[], int] = lambda: 0
    ) -> None:
        state = ActorState.at_start(environments, layout.lstm_size)
        uniforms = torch.zeros(environments, dtype=torch.float64)
        self.groups: Sequence[slice] = (slice(0, environments),)
        self.questions = Questions(np.zeros((environments, *observation_shape(layout)), np.uint8), state, uniforms)
        self._actor = actor
        self._load_newest = load_newest
        self._version = 0

    def refresh(self) -> None:
        self._version = self._load_newest()

    def ask(self, group: int) -> None:
        """Nothing is to be done before the answer is wanted."""

    def answer(self, group: int) -> tuple[Decision, int]:
        asked = self.questions.select(self.groups[group])
        observations = as_batch(torch.from_numpy(asked.observations))
        return self._actor.act(observations, asked.state, asked.uniforms), self._version

    def value_of(self, environment: int, observation: NDArray[np.uint8]) -> float:
        asked = self.questions.select(slice(environment, environment + 1))
        place = np.empty_like(asked.observations)
        put_stack(place[0], observation)
        return float(self._actor.act(as_batch(torch.from_numpy(place)), asked.state, torch.zeros(1)).values)
