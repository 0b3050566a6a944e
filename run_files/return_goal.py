"""The mean return at which a run ends (--stop_at_return)."""

from collections.abc import Collection

import numpy as np


def reaches_return(returns: Collection[float], window: int, goal: float | None) -> bool:
    """Whether `returns` are those of a full window of games, and their mean is at least `goal`."""
    return goal is not None and len(returns) >= window and float(np.mean(list(returns))) >= goal
