"""Checks that what an environment returns has the shape and the type that its space promises."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from wrappers.any_environment.faults import ValueFaultError

ADMITTED_TYPES = 8  # types of numbers that are remembered for one part


def array_reader(space: spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete) -> Callable[[Any], NDArray[Any]]:
    """A function that returns a value of the space as an array, or raises a ValueFaultError.

    Other types of numbers are admitted if each number means the same in both: float64 for float32, and whole numbers of
    another size. Whether they are finite is not checked.
    """
    shape, dtype = space.shape, np.dtype(space.dtype)
    admitted = {dtype}

    def read(value: Any) -> NDArray[Any]:
        if type(value) is np.ndarray and value.shape == shape and value.dtype in admitted:
            return value
        array = _as_array(value)
        if array.shape != shape:
            raise ValueFaultError(f"has the shape {list(array.shape)}, and its space says {list(shape)}")
        if not _means_the_same(array.dtype, dtype):
            raise ValueFaultError(f"has the dtype {array.dtype}, and its space says {dtype}")
        if len(admitted) < ADMITTED_TYPES:
            admitted.add(array.dtype)
        return array

    return read


def _as_array(value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueFaultError(f"is no array ({error})") from None


def _means_the_same(found: np.dtype[Any], promised: np.dtype[Any]) -> bool:
    if found.kind not in "biuf":
        return False
    if promised.kind == "f":
        return True
    return found.kind in "biu"
