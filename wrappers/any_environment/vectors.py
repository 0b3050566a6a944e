"""Puts the numbers of an observation into one vector: first those that are measured, then zeros and ones."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from options.rules import UsageError
from replay.stored_vectors import NUMBERS, Stored, VectorPart
from replay.unroll_layout import MOST_NUMBERS
from wrappers.any_environment.faults import ValueFaultError
from wrappers.any_environment.space_checks import array_reader
from wrappers.any_environment.space_parts import Part, Path, one_hot_size
from wrappers.environment import NO_VECTOR

Vector = NDArray[np.float32]
Write = Callable[[Any, Vector], None]  # writes a value into its place in the vector

LARGEST = float(np.finfo(np.float32).max)
FEW = 64  # numbers that are checked faster in plain Python than in numpy


class VectorReader:
    """Makes the vector of an observation. `size` numbers, the last `one_hot_size` of them zeros and ones.

    The vector is float32, because the network computes in float32. `parts` says which smaller types hold it exactly.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        numbers = [part for part in parts if part.kind == "numbers"]
        one_hot = [part for part in parts if part.kind == "one_hot"]
        self._writers: list[tuple[Part, Path, Write]] = []
        self.size = 0
        stored: list[VectorPart] = []
        for part in numbers:
            assert isinstance(part.space, spaces.Box)
            length = int(np.prod(part.space.shape))
            self._writers.append((part, part.path, _numbers_writer(part.space, self.size, self.size + length)))
            self.size += length
            stored.append(VectorPart(_stored(part.space), length))
        self.one_hot_size = 0
        for part in one_hot:
            length = one_hot_size(part.space)
            self._writers.append((part, part.path, _one_hot_writer(part.space, self.size)))
            self.size += length
            self.one_hot_size += length
            stored += _stored_bits(part.space)
        self.parts = _joined(stored)
        if self.size > MOST_NUMBERS:
            raise UsageError(
                f"--env has observations of {self.size} numbers, those of all parts together; at most {MOST_NUMBERS} "
                "would be right. --env_wrapper=module:function can name a wrapper that leaves some out."
            )

    def __call__(self, observation: Any) -> Vector:
        if not self._writers:
            return NO_VECTOR
        vector = np.zeros(self.size, np.float32)
        for part, path, write in self._writers:
            value = observation
            try:
                for key in path:
                    value = value[key]
                write(value, vector)
            except ValueFaultError as error:
                raise ValueFaultError(f"{part.name} {error}") from None
            except (LookupError, TypeError) as error:
                raise ValueFaultError(f"{part.name} is missing ({error!r})") from None
        return vector


def _stored(space: spaces.Box) -> Stored:
    """The type in which unrolls store these numbers: that of the space if it is small, else float32."""
    return next((stored for stored in NUMBERS if stored == space.dtype.name), "float32")


def _stored_bits(space: Space[Any]) -> list[VectorPart]:
    """One index for each choice of one among several; other zeros and ones as bytes."""
    if isinstance(space, spaces.Discrete):
        return [VectorPart("choice", int(space.n))]
    if isinstance(space, spaces.MultiDiscrete):
        return [VectorPart("choice", int(size)) for size in space.nvec.flat]
    return [VectorPart("uint8", one_hot_size(space))]


def _joined(parts: Sequence[VectorPart]) -> tuple[VectorPart, ...]:
    """The same with neighbours of one type in one part. Choices stay apart."""
    joined: list[VectorPart] = []
    for part in parts:
        if joined and part.stored == joined[-1].stored != "choice":
            joined[-1] = VectorPart(part.stored, joined[-1].size + part.size)
        else:
            joined.append(part)
    return tuple(joined)


def _numbers_writer(space: spaces.Box, start: int, stop: int) -> Write:
    read = array_reader(space)
    flat = len(space.shape) == 1
    few = stop - start <= FEW
    stored = _stored(space)
    limits = None if stored == "float32" else np.iinfo(stored)

    def write(value: Any, vector: Vector) -> None:
        array = read(value)
        numbers = array if flat else array.reshape(-1)
        # NaN is not below anything. A sum of finite numbers can be too large, so a number must be found, too.
        if numbers.dtype.kind == "f" and not (few and sum(map(abs, numbers.tolist())) <= LARGEST):
            _check_finite(numbers)
        if limits is not None and numbers.dtype != space.dtype:
            _check_limits(numbers, limits)
        vector[start:stop] = numbers

    return write


def _check_finite(numbers: NDArray[Any]) -> None:
    right = np.abs(numbers) <= LARGEST
    if not np.logical_and.reduce(right):
        place = int(np.flatnonzero(~right)[0])
        raise ValueFaultError(f"has {numbers[place]} at place {place}; finite float32 numbers would be right")


def _check_limits(numbers: NDArray[Any], limits: np.iinfo[Any]) -> None:
    """Whole numbers of another type must fit into that of the space, in which unrolls store them."""
    wrong = (numbers < limits.min) | (numbers > limits.max)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise ValueFaultError(f"has {numbers[place]} at place {place}, and its space says {limits.dtype}")


def _one_hot_writer(space: Space[Any], start: int) -> Write:
    if isinstance(space, spaces.Discrete):
        return _index_writer(space, start)
    if isinstance(space, spaces.MultiDiscrete):
        return _indices_writer(space, start)
    assert isinstance(space, spaces.Box | spaces.MultiBinary)
    return _bits_writer(space, start)


def _index_writer(space: spaces.Discrete, start: int) -> Write:
    first, count = int(space.start), int(space.n)

    def write(value: Any, vector: Vector) -> None:
        try:
            index = value.__index__() - first
        except (AttributeError, TypeError):
            raise ValueFaultError(f"is {value!r:.60}, no whole number") from None
        if not 0 <= index < count:
            raise ValueFaultError(f"is {value}, and its space says {first} to {first + count - 1}")
        vector[start + index] = 1

    return write


def _indices_writer(space: spaces.MultiDiscrete, start: int) -> Write:
    read = array_reader(space)
    sizes = space.nvec.reshape(-1).astype(np.int64)
    first = np.asarray(space.start).reshape(-1).astype(np.int64)
    offsets = start + np.cumsum(sizes) - sizes

    def write(value: Any, vector: Vector) -> None:
        indices = read(value).reshape(-1).astype(np.int64) - first  # unsigned ones would become float64
        if (indices < 0).any() or (indices >= sizes).any():
            raise ValueFaultError(f"is {value!s:.60}, and its space says {space}")
        vector[offsets + indices] = 1

    return write


def _bits_writer(space: spaces.Box | spaces.MultiBinary, start: int) -> Write:
    read = array_reader(space)
    stop = start + one_hot_size(space)

    def write(value: Any, vector: Vector) -> None:
        bits = read(value).reshape(-1)
        if bits.dtype != np.bool_ and ((bits != 0) & (bits != 1)).any():
            raise ValueFaultError("has other numbers than 0 and 1")
        vector[start:stop] = bits

    return write
