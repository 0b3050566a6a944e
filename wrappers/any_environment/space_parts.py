"""Takes an observation space apart: which of its parts are pictures, and which are numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces

from options.rules import UsageError
from replay.unroll_layout import MOST_NUMBERS, MOST_PIXELS

SUPPORTED = "Box, Discrete, MultiBinary and MultiDiscrete, also inside Dict and Tuple"
MINIGRID_HINT = "--env_wrapper=minigrid.wrappers:ImgObsWrapper leaves out the text of MiniGrid and BabyAI"

Path = tuple[str | int, ...]  # the keys and indices that lead to a part of an observation
PartKind = Literal["picture", "numbers", "one_hot"]


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
        _check_size(name, one_hot_size(space))
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


def one_hot_size(space: Space[Any]) -> int:
    """The zeros and ones that describe a value of the space."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    assert space.shape is not None
    return int(np.prod(space.shape))


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
