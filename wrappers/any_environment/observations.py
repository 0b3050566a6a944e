"""Takes observations apart: which of their parts are pictures and which numbers, and one vector of all numbers.

Gymnasium's own `contains` and `flatten` do this for any space, but each part takes several times as long, up to a
hundred times for Discrete; and they do not find NaN, or say which part is wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from options.rules import UsageError
from replay.unroll_layout import MOST_NUMBERS, MOST_PIXELS
from wrappers.any_environment.faults import ValueFaultError
from wrappers.environment import NO_VECTOR

SUPPORTED = "Box, Discrete, MultiBinary and MultiDiscrete, also inside Dict and Tuple"
MINIGRID_HINT = "--env_wrapper=minigrid.wrappers:ImgObsWrapper leaves out the text of MiniGrid and BabyAI"
LARGEST = float(np.finfo(np.float32).max)
FEW = 64  # numbers that are checked faster in plain Python than in numpy
# float32 holds all of their numbers. uint16 is missing, because PyTorch does not support it on every device.
SMALL_TYPES = ("uint8", "int8", "int16")
ADMITTED_TYPES = 8  # types of numbers that are remembered for one part

Path = tuple[str | int, ...]  # the keys and indices that lead to a part of an observation
PartKind = Literal["picture", "numbers", "one_hot"]
Vector = NDArray[np.float32]
Write = Callable[[Any, Vector], None]  # writes a value into its place in the vector


@dataclass(frozen=True)
class Part:
    """A space without parts of its own, and where it is in an observation."""

    path: Path
    space: Space[Any]
    kind: PartKind

    @property
    def name(self) -> str:
        """What a message calls it: "the observation", or "the observation['image']"."""
        return _name(self.path)


def parts_of(space: Space[Any]) -> list[Part]:
    """The pictures, numbers and one-hot parts of an observation space, in its order.

    UsageError if one of them is not supported.
    """
    parts = [Part(path, leaf, _kind(leaf, _name(path))) for path, leaf in _leaves(space, ())]
    if not parts:
        raise UsageError(f"--env has an empty observation space, {space}; at least one number would be right.")
    return parts


def _leaves(space: Space[Any], path: Path) -> Iterator[tuple[Path, Space[Any]]]:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, space


def _kind(space: Space[Any], name: str) -> PartKind:
    if isinstance(space, spaces.Box):
        if np.issubdtype(space.dtype, np.complexfloating):
            raise UsageError(f"--env: {name} has complex numbers; real ones would be right.")
        if is_picture(space):
            if max(space.shape) > MOST_PIXELS:
                raise UsageError(
                    f"--env: {name} is a picture of {'×'.join(map(str, space.shape))}; at most {MOST_PIXELS} pixels on "
                    "a side would be right."
                )
            return "picture"
        _check_size(name, int(np.prod(space.shape)))
        return "one_hot" if space.dtype == np.bool_ else "numbers"
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        _check_size(name, spaces.flatdim(space))
        return "one_hot"
    kind = type(space).__name__
    hint = (
        MINIGRID_HINT
        if kind == "MissionSpace"
        else "--env_wrapper=module:function can name a wrapper that changes or leaves it out"
    )
    raise UsageError(f"--env: {name} is a {kind} space, and supported are {SUPPORTED}; {hint}.")


def _check_size(name: str, size: int) -> None:
    if not 0 < size <= MOST_NUMBERS:
        raise UsageError(
            f"--env: {name} has {size} numbers, and no picture's shape; 1 to {MOST_NUMBERS}, or a picture [height, "
            "width, channels], would be right. --env_wrapper=module:function can name a wrapper that reshapes it."
        )


def is_picture(space: spaces.Box) -> bool:
    """A Box of pixels: [H, W] of bytes; [H, W, C] or [C, H, W] of bytes, bools, or other numbers with finite bounds."""
    if min(space.shape, default=0) == 0:
        return False
    if len(space.shape) == 2:
        return space.dtype == np.uint8
    if len(space.shape) != 3:
        return False
    return space.dtype in (np.uint8, np.bool_) or space.is_bounded()


def is_channels_first(shape: Sequence[int]) -> bool:
    """Whether a picture of three dimensions is [C, H, W], not [H, W, C]."""
    first, middle, last = shape
    return (first in (1, 3, 4) and first != middle and last > 4) or first < middle == last


def _name(path: Path) -> str:
    return "the observation" + "".join(f"[{key!r}]" for key in path)


class VectorReader:
    """Makes the vector of an observation. `size` numbers, the last `one_hot_size` of them zeros and ones.

    The vector is float32, because the network computes in float32. `dtype` is the smallest type that holds it exactly.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        numbers = [part for part in parts if part.kind == "numbers"]
        one_hot = [part for part in parts if part.kind == "one_hot"]
        self._writers: list[tuple[Part, Path, Write]] = []
        self.size = 0
        dtypes: list[str] = []
        for part in numbers:
            assert isinstance(part.space, spaces.Box)
            length = int(np.prod(part.space.shape))
            self._writers.append((part, part.path, _numbers_writer(part.space, self.size, self.size + length)))
            self.size += length
            dtypes.append(_stored(part.space))
        self.one_hot_size = 0
        for part in one_hot:
            length = spaces.flatdim(part.space)
            self._writers.append((part, part.path, _one_hot_writer(part.space, self.size)))
            self.size += length
            self.one_hot_size += length
            dtypes.append("uint8")
        self.dtype = np.result_type(*dtypes).name if dtypes else "float32"
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


def _stored(space: spaces.Box) -> str:
    """The type in which unrolls store these numbers: that of the space if it is small, else float32."""
    return space.dtype.name if space.dtype.name in SMALL_TYPES else "float32"


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
    stop = start + spaces.flatdim(space)

    def write(value: Any, vector: Vector) -> None:
        bits = read(value).reshape(-1)
        if bits.dtype != np.bool_ and ((bits != 0) & (bits != 1)).any():
            raise ValueFaultError("has other numbers than 0 and 1")
        vector[start:stop] = bits

    return write


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
