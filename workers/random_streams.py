"""Independent random streams from one seed."""

from typing import Literal

import numpy as np

# numpy reads missing numbers as zeros: without purpose and count, a replay and an environment could share a stream.
PURPOSES = {"environment": 1, "replays": 2, "game": 3, "latency": 4, "node": 5, "learner": 6}


def stream_of(
    purpose: Literal["environment", "replays", "game", "latency", "node", "learner"], *numbers: int
) -> np.random.SeedSequence:
    """The stream for a purpose. `numbers` are the seed, and the indices of the stream within this purpose."""
    return np.random.SeedSequence((PURPOSES[purpose], len(numbers), *numbers))
