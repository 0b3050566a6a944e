"""Actions: what the agent chooses, and what the environment gets for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from options.rules import UsageError
from replay.unroll_layout import MOST_CHOICES, ActionKind
from wrappers.any_environment.faults import ValueFaultError

SUPPORTED = "Discrete, MultiDiscrete, MultiBinary and Box, also inside Dict and Tuple"

Path = tuple[str | int, ...]  # the keys and indices that lead to a part of an action or an observation


@dataclass(frozen=True)
class Actions:
    """The agent's actions, as `UnrollLayout` declares them, and the functions to the environment's own and back."""

    kind: ActionKind
    sizes: tuple[int, ...]
    to_environment: Callable[[Any], Any]  # a plain number of Discrete, an array, or the structure of these
    from_environment: Callable[[Any], Any]  # a number, or a flat array
    names: tuple[str, ...] = ()  # of a composite action: the part that each choice or number belongs to

    @property
    def space(self) -> Space[Any]:
        """What the agent chooses from."""
        if self.kind == "discrete":
            return spaces.Discrete(self.sizes[0])
        if self.kind == "product":
            return spaces.MultiDiscrete(np.array(self.sizes))
        low, high = np.array([(0, size - 1) if size else (-np.inf, np.inf) for size in self.sizes], np.float32).T
        return spaces.Box(low, high, dtype=np.float32)

    def read_mask(self, given: Any) -> NDArray[np.float32]:
        """An action mask: 1 for each choice that is possible, 0 for the others, factor by factor."""
        try:
            # One array, or one for each factor.
            mask = (given if isinstance(given, np.ndarray) else np.hstack(given)).reshape(-1).astype(bool)
        except (TypeError, ValueError):
            raise ValueFaultError(f"the action mask is {given!r:.60}; an array of 0 and 1 would be right") from None
        if mask.shape != (sum(self.sizes),):
            raise ValueFaultError(f"the action mask has the shape {list(mask.shape)}, not [{sum(self.sizes)}]")
        if not np.logical_or.reduceat(mask, np.cumsum((0, *self.sizes[:-1]))).all():
            raise ValueFaultError("the action mask leaves no action; at least one 1 would be right")
        return mask.astype(np.float32)


def actions_for(space: Space[Any] | None) -> Actions:
    """The agent's actions in an environment with this action space. UsageError if it is not supported."""
    if isinstance(space, spaces.Discrete):
        actions = _discrete(space)
    elif isinstance(space, spaces.MultiDiscrete):
        actions = _product(space, space.nvec.reshape(-1).astype(np.int64), np.asarray(space.start).reshape(-1))
    elif isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        actions = _product(space, np.full(count, 2, np.int64), np.zeros(count, np.int64))
    elif isinstance(space, spaces.Box):
        actions = _gaussian(space)
    elif isinstance(space, spaces.Tuple | spaces.Dict):
        actions = _composite(space)
    else:
        raise UsageError(
            f"--env has actions in a {type(space).__name__} space, and supported are {SUPPORTED}; "
            "--env_wrapper=module:function can name a wrapper that changes this."
        )
    count = sum(actions.sizes) + actions.sizes.count(0)
    most = MOST_CHOICES if actions.kind in ("discrete", "product") else MOST_CHOICES // 2  # a mean and a deviation each
    if not 0 < count <= most:
        raise UsageError(f"--env has {count} choices or numbers in an action; 1 to {most} would be right.")
    return actions


def _discrete(space: spaces.Discrete) -> Actions:
    start, count = int(space.start), int(space.n)
    return Actions("discrete", (count,), lambda action: int(action) + start, lambda own: int(own) - start)


def _product(space: Space[Any], sizes: NDArray[np.int64], start: NDArray[Any]) -> Actions:
    shape, dtype = space.shape or (), space.dtype

    def to_environment(action: Any) -> NDArray[Any]:
        typed: NDArray[Any] = (np.asarray(action) + start).reshape(shape).astype(dtype)
        return typed

    def from_environment(own: Any) -> NDArray[np.int64]:
        choices: NDArray[np.int64] = np.asarray(own, np.int64).reshape(-1) - start
        return choices

    return Actions("product", tuple(map(int, sizes)), to_environment, from_environment)


def _gaussian(space: spaces.Box) -> Actions:
    """Real numbers without bounds. −1 to 1 spans finite bounds; in other dimensions an action is the value itself."""
    count = int(np.prod(space.shape))
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
    bounded = (space.bounded_below & space.bounded_above).reshape(-1)
    least, most = np.where(bounded, -1.0, low), np.where(bounded, 1.0, high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    offset, scale = low / 2 + high / 2, high / 2 - low / 2
    shape, dtype = space.shape, np.dtype(space.dtype)
    space_low, space_high = space.low, space.high

    def to_environment(action: Any) -> NDArray[Any]:
        values = np.minimum(np.maximum(action, least), most) * scale + offset
        if dtype.kind != "f":
            values = np.rint(values)
        typed: NDArray[Any] = values.reshape(shape).astype(dtype)
        # Rounding can leave the bounds by a last digit.
        np.maximum(typed, space_low, out=typed)
        np.minimum(typed, space_high, out=typed)
        return typed

    def from_environment(own: Any) -> NDArray[np.float32]:
        values = np.asarray(own, np.float64).reshape(-1) - offset
        return np.divide(values, scale, out=np.zeros(count), where=scale > 0).astype(np.float32)

    return Actions("gaussian", (0,) * count, to_environment, from_environment)


def _composite(space: "spaces.Tuple[Any] | spaces.Dict") -> Actions:
    """The actions of all parts as one: choices first, then real numbers."""
    parts = [(path, actions_for(part)) for path, part in leaves(space)]
    kinds = {part.kind for _, part in parts}
    kind: ActionKind = "product" if "gaussian" not in kinds else "gaussian" if kinds == {"gaussian"} else "mixed"
    sizes: list[int] = []
    names: list[str] = []
    places: list[slice] = [slice(0)] * len(parts)
    for index in sorted(range(len(parts)), key=lambda index: parts[index][1].kind == "gaussian"):
        path, part = parts[index]
        count, name = len(part.sizes), ".".join(map(str, path))  # such as "arm.grip" and "0.left"
        places[index] = slice(len(sizes), len(sizes) + count)
        sizes += part.sizes
        names += [name] if count == 1 else [f"{name}[{place}]" for place in range(count)]

    def to_environment(action: Any) -> Any:
        chosen = [np.asarray(action)[place] for place in places]
        own = (
            part.to_environment(values[0] if part.kind == "discrete" else values)
            for (_, part), values in zip(parts, chosen, strict=True)
        )
        return _structured(space, own)

    def from_environment(own: Any) -> NDArray[Any]:
        chosen = np.zeros(len(sizes), np.int64 if kind == "product" else np.float32)
        for (path, part), place in zip(parts, places, strict=True):
            chosen[place] = part.from_environment(reduce(getitem, path, own))
        return chosen

    return Actions(kind, tuple(sizes), to_environment, from_environment, tuple(names))


def leaves(space: Space[Any] | None, path: Path = ()) -> Iterator[tuple[Path, Space[Any] | None]]:
    """The parts that are neither Dict nor Tuple, in the order of the space, and what leads to them."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in pairs:
            yield from leaves(part, (*path, key))
    else:
        yield path, space


def _structured(space: Space[Any], values: Iterator[Any]) -> Any:
    """The values of all leaves in the structure of `space`."""
    if isinstance(space, spaces.Dict):
        return {key: _structured(part, values) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_structured(part, values) for part in space.spaces)
    return next(values)
