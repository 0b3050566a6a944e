"""Takes observations apart: their pictures become one frame, and all other numbers one vector.

Gymnasium's own `contains` and `flatten` do this for any space, but each part takes several times as long, up to a
hundred times for Discrete; and they do not find NaN, or say which part is wrong.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from options.environment_options import MAX_CHANNELS, EnvironmentOptions
from options.rules import UsageError
from replay.unroll_layout import MOST_NUMBERS
from wrappers.any_environment.actions import Path, leaves
from wrappers.any_environment.faults import ValueFaultError
from wrappers.any_environment.pictures import as_array, is_picture, picture_writer
from wrappers.environment import NO_FRAME, NO_VECTOR, Observation

# float32 holds all of their numbers. uint16 is missing, because PyTorch does not support it on every device.
SMALL_TYPES = ("uint8", "int8", "int16")
SUPPORTED = "Box, Discrete, MultiBinary and MultiDiscrete, also inside Dict and Tuple"

Write = Callable[[Any, NDArray[Any]], None]  # writes a value into its place


class Part(NamedTuple):
    """A space without parts of its own: where it is in an observation, and what is done with its values."""

    path: Path
    write: Write
    place: slice  # of the frame's channels, or of the vector


class ObservationReader:
    """Makes an `Observation` of what an environment returns.

    The vector is float32, because the network computes in float32; `vector_dtype` is the smallest type that holds it
    exactly. The last `one_hot_size` of its numbers are zeros and ones. The next call overwrites the frame.
    """

    def __init__(self, space: Space[Any] | None, options: EnvironmentOptions) -> None:
        parts = [(path, _checked(path, leaf)) for path, leaf in leaves(space)]
        pictures = [(path, leaf) for path, leaf in parts if isinstance(leaf, spaces.Box) and is_picture(leaf)]
        vectors = [(path, leaf) for path, leaf in parts if (path, leaf) not in pictures]
        vectors.sort(key=lambda part: _is_one_hot(part[1]))  # numbers first
        self._pictures: list[Part] = []
        self.frame_shape = (0, 0, 0)
        for path, picture in pictures:
            write, (channels, height, width) = picture_writer(picture, options, _name(path))
            first = self.frame_shape[0]
            if first and self.frame_shape[1:] != (height, width):
                raise UsageError(
                    f"--env has pictures of several sizes: {_name(path)} is {height}×{width}, and others are "
                    f"{self.frame_shape[1]}×{self.frame_shape[2]}; --frame_scale_resolution, or a wrapper that "
                    "--env_wrapper=module:function names, can change this."
                )
            self.frame_shape = (first + channels, height, width)
            self._pictures.append(Part(path, write, slice(first, first + channels)))
        channels, height, width = self.frame_shape
        if channels * options.frames_stacked > MAX_CHANNELS:
            raise UsageError(
                f"--frames_stacked={options.frames_stacked} is too many for pictures of {channels} channels; at most "
                f"{MAX_CHANNELS} channels together would be right."
            )
        # Channels are last in memory, as in most environments, so that most pictures are copied in one piece.
        self._frame = np.zeros((height, width, channels), np.uint8).transpose(2, 0, 1) if channels else NO_FRAME

        self._vectors: list[Part] = []
        self.vector_size = self.one_hot_size = 0
        dtypes: list[str] = []
        for path, leaf in vectors:
            size = spaces.flatdim(leaf)
            self._vectors.append(Part(path, _writer(leaf), slice(self.vector_size, self.vector_size + size)))
            self.vector_size += size
            self.one_hot_size += size if _is_one_hot(leaf) else 0
            dtypes.append(_stored(leaf))
        self.vector_dtype = np.result_type(*dtypes).name if dtypes else "float32"
        if self.vector_size > MOST_NUMBERS or not (pictures or self.vector_size):
            raise UsageError(
                f"--env has observations of {self.vector_size} numbers that are no picture; 1 to {MOST_NUMBERS}, or a "
                "picture [height, width, channels], would be right. --env_wrapper=module:function can name a wrapper "
                "that reshapes them or leaves some out."
            )

    def __call__(self, observation: Any) -> Observation:
        vector = np.zeros(self.vector_size, np.float32) if self.vector_size else NO_VECTOR
        self._write(observation, self._pictures, self._frame)
        self._write(observation, self._vectors, vector)
        if not math.isfinite(vector.dot(vector)):
            self._check_finite(vector)
        return Observation(self._frame, vector)

    def _write(self, observation: Any, parts: Sequence[Part], into: NDArray[Any]) -> None:
        for part in parts:
            try:
                part.write(reduce(getitem, part.path, observation), into[part.place])
            except ValueFaultError as error:
                raise ValueFaultError(f"{_name(part.path)} {error}") from None
            except (LookupError, TypeError) as error:
                raise ValueFaultError(f"{_name(part.path)} is missing ({error!r})") from None

    def _check_finite(self, vector: NDArray[np.float32]) -> None:
        """Name a number that is NaN or infinite. There is none where only the sum of the squares is too large."""
        for part in self._vectors:
            for place in np.flatnonzero(~np.isfinite(vector[part.place])):
                number = vector[part.place][place]
                right = "finite float32 numbers would be right"
                raise ValueFaultError(f"{_name(part.path)} has {number} at place {place}; {right}")


def _checked(path: Path, space: Space[Any] | None) -> Space[Any]:
    """The space of a part; UsageError if it is not supported."""
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise UsageError(
            f"--env: {_name(path)} is a {type(space).__name__} space, and supported are {SUPPORTED}; "
            "--env_wrapper=module:function can name a wrapper that leaves it out, as minigrid.wrappers:ImgObsWrapper "
            "does with the text of MiniGrid."
        )
    return space


def _name(path: Path) -> str:
    return "the observation" + "".join(f"[{key!r}]" for key in path)


def _is_one_hot(space: Space[Any]) -> bool:
    return not isinstance(space, spaces.Box) or space.dtype == np.bool_


def _stored(space: Space[Any]) -> str:
    """The type in which unrolls store its numbers: that of the space if it is small, else float32."""
    if _is_one_hot(space):
        return "uint8"
    name = np.dtype(space.dtype).name
    return name if name in SMALL_TYPES else "float32"


def _writer(space: Space[Any]) -> Write:
    if isinstance(space, spaces.Discrete):
        return _index_writer(space)
    if isinstance(space, spaces.MultiDiscrete):
        return _indices_writer(space)
    assert isinstance(space, spaces.Box | spaces.MultiBinary)
    return _bits_writer(space) if _is_one_hot(space) else _numbers_writer(space)


def _numbers_writer(space: Space[Any]) -> Write:
    dtype = np.dtype(space.dtype)
    is_stored_so = dtype.name in SMALL_TYPES

    def write(value: Any, out: NDArray[Any]) -> None:
        array = as_array(value, space)
        if is_stored_so and array.dtype != dtype and (array != array.astype(dtype)).any():
            raise ValueFaultError(f"is {value!s:.60}, and its space says {dtype}")
        out[:] = array.reshape(-1)

    return write


def _index_writer(space: spaces.Discrete) -> Write:
    first, count = int(space.start), int(space.n)

    def write(value: Any, out: NDArray[Any]) -> None:
        try:
            index = value.__index__() - first
        except (AttributeError, TypeError):
            raise ValueFaultError(f"is {value!r:.60}, no whole number") from None
        if not 0 <= index < count:
            raise ValueFaultError(f"is {value}, and its space says {first} to {first + count - 1}")
        out[index] = 1

    return write


def _indices_writer(space: spaces.MultiDiscrete) -> Write:
    sizes = space.nvec.reshape(-1).astype(np.int64)
    first = np.asarray(space.start).reshape(-1).astype(np.int64)
    offsets = np.cumsum(sizes) - sizes

    def write(value: Any, out: NDArray[Any]) -> None:
        indices = as_array(value, space).reshape(-1).astype(np.int64) - first  # unsigned ones would become float64
        if (indices < 0).any() or (indices >= sizes).any():
            raise ValueFaultError(f"is {value!s:.60}, and its space says {space}")
        out[offsets + indices] = 1

    return write


def _bits_writer(space: Space[Any]) -> Write:
    def write(value: Any, out: NDArray[Any]) -> None:
        bits = as_array(value, space).reshape(-1)
        if bits.dtype != np.bool_ and ((bits != 0) & (bits != 1)).any():
            raise ValueFaultError("has other numbers than 0 and 1")
        out[:] = bits

    return write
