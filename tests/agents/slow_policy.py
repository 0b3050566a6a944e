"""The categorical distribution written out from its definition, state by state, for the tests to compare with."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def probabilities(logits: Array) -> Array:
    """`[A]` → `[A]`."""
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def entropy(p: Array) -> float:
    return -sum(float(x) * float(np.log(x)) for x in p)


def kl(p: Array, q: Array) -> float:
    """KL(p ‖ q) of two lists of probabilities."""
    return sum(float(x) * float(np.log(x / y)) for x, y in zip(p, q, strict=True))
