"""Independent random streams from one seed, and exploration by random actions.

While rewards are rare, some environments explore: now and then, they hold a random action for a random time.
Where a policy acts step by step, chance hardly ever leads far: random play does not cross the road of Freeway. A held
action does. The lengths of holds are drawn from a zeta distribution, so a few of them are very long (Dabney et al.
2021, arXiv 2006.01782).

A hold counts as something that happens in the game: the steps teach what the states are worth, and nothing about the
policy, which had no choice.
"""

import json
import math
from collections import deque
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from replay.unroll_layout import UnrollLayout
from wrappers.environment import first_choices, random_action

# numpy reads missing numbers as zeros: without purpose and count, a replay and an environment could share a stream.
PURPOSES = {"environment": 1, "replays": 2, "game": 3, "latency": 4, "node": 5, "learner": 6, "pretraining": 7}

RATE = 0.1  # of the steps without a held action, the share that begins to hold one
EXPONENT = 1.5  # of the zeta distribution
LONGEST = 100  # steps
RARE = 1 / 500  # rewards are rare if a smaller share of the policy's steps is rewarded
WINDOW = 10_000  # the steps of a worker in which that is counted

_LENGTHS = np.arange(1, LONGEST + 1.0) ** -EXPONENT
_AT_MOST_SHARE = _LENGTHS.cumsum() / _LENGTHS.sum()


def stream_of(
    purpose: Literal["environment", "replays", "game", "latency", "node", "learner", "pretraining"], *numbers: int
) -> np.random.SeedSequence:
    """The stream for a purpose. `numbers` are the seed, and the indices of the stream within this purpose."""
    return np.random.SeedSequence((PURPOSES[purpose], len(numbers), *numbers))


class HeldActions:
    """The held actions of one environment."""

    def __init__(self, layout: UnrollLayout, generator: np.random.Generator) -> None:
        self._kind, self._sizes = layout.action_kind, layout.action_sizes or (layout.action_count,)
        self._generator = generator
        self._held = random_action(self._kind, self._sizes, generator, np.ones(layout.mask_size, np.float32))
        self._steps_left = 0
        self._took_part = False  # in the game that goes on

    def restart(self) -> None:
        """At the start of an episode, nothing is held."""
        self._steps_left = 0

    def next(self, mask: NDArray[np.float32]) -> NDArray[Any] | None:
        """The action that is held in the next step; None if the policy decides. `mask`: as for `random_action`."""
        if self._steps_left == 0 and self._generator.random() < RATE:
            self._held = random_action(self._kind, self._sizes, self._generator, mask)
            self._steps_left = 1 + int(np.searchsorted(_AT_MOST_SHARE, self._generator.random()))
        if len(mask) and not mask[first_choices(self._sizes) + self._held].all():
            self._steps_left = 0  # what is held is not possible here
        if self._steps_left == 0:
            return None
        self._steps_left -= 1
        self._took_part = True
        return self._held

    def end_game(self) -> bool:
        """Whether an action was held in the game that has ended."""
        took_part, self._took_part = self._took_part, False
        return took_part

    def snapshot(self) -> dict[str, Any]:
        return {
            "held": self._held.tolist(),
            "steps_left": self._steps_left,
            "took_part": self._took_part,
            "generator": json.dumps(self._generator.bit_generator.state),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._held, self._steps_left = np.array(state["held"], self._held.dtype), state["steps_left"]
        self._took_part = state["took_part"]
        self._generator.bit_generator.state = json.loads(state["generator"])


class RewardWatch:
    """Whether a worker's policy is rewarded so rarely that environments explore. They do not until that is known."""

    def __init__(self, steps_of_a_round: int) -> None:
        rounds = math.ceil(WINDOW / steps_of_a_round)
        self.counts: deque[int] = deque(maxlen=rounds)  # of the rewarded steps in each of the latest rounds
        self._enough = RARE * rounds * steps_of_a_round

    def note(self, rewards: NDArray[np.float32], held: NDArray[np.uint8]) -> None:
        """Count a round of steps. Rewards of held actions do not count."""
        self.counts.append(int(np.count_nonzero((rewards != 0) & (held == 0))))

    @property
    def finds_few(self) -> bool:
        return len(self.counts) == self.counts.maxlen and sum(self.counts) < self._enough


def explores(environment_id: int, share: float) -> bool:
    """Whether an environment is one of the given share, which are spread evenly."""
    return math.floor((environment_id + 1) * share) > math.floor(environment_id * share)
