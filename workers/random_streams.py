"""Whose random numbers are whose: the streams of one seed, no two of them the same."""

from typing import Literal

import numpy as np

# numpy takes missing numbers for zeros: without purpose and count, a replay's stream would be an environment's.
PURPOSES = {"environment": 1, "replays": 2, "game": 3}


def stream_of(purpose: Literal["environment", "replays", "game"], *numbers: int) -> np.random.SeedSequence:
    """The stream for a purpose; `numbers` are the seed, and what tells the streams of this purpose apart."""
    return np.random.SeedSequence((PURPOSES[purpose], len(numbers), *numbers))
