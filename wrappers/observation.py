"""What an environment shows the agent: a stack of pictures, a vector of numbers, or both."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Observation(NamedTuple):
    """One observation of an environment that is no plain stack of pictures. Each is a new pair of arrays."""

    frames: NDArray[np.uint8]  # [S, C, H, W], the newest frame last; [0, 0, 0, 0] without a picture
    vector: NDArray[np.float32]  # [D]; [0] without numbers


NO_FRAMES: NDArray[np.uint8] = np.zeros((0, 0, 0, 0), np.uint8)
NO_VECTOR: NDArray[np.float32] = np.zeros(0, np.float32)


def as_observation(seen: Observation | NDArray[np.uint8]) -> Observation:
    """Both parts of an observation; Atari games return their stack of frames `[S, C, H, W]` alone."""
    return seen if isinstance(seen, Observation) else Observation(seen, NO_VECTOR)
