"""Copies of a nested content, each with one part deleted or replaced by something else."""

import copy
from collections.abc import Iterator
from typing import Any

import torch

Place = tuple[Any, ...]  # keys and indices, from the outside to the part

DELETED = object()
LONG = 4  # of a longer list, and of a longer table of weights, only the first and the last item are changed


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all parts of a content, the outer ones before those in them."""
    if place:
        yield place
    if isinstance(value, dict):
        weights = all(isinstance(item, torch.Tensor | dict) for item in value.values())
        keys = list(value)
        for key in (keys[0], keys[-1]) if weights and len(keys) > LONG else keys:
            yield from places(value[key], (*place, key))
    elif isinstance(value, list | tuple):
        for index in range(len(value)) if len(value) <= LONG else (0, len(value) - 1):
            yield from places(value[index], (*place, index))


def replacements(value: Any) -> Iterator[Any]:
    """What a part is replaced by: other types, other shapes, and numbers that are no good."""
    yield from (DELETED, None, "other", -1, 10**400, float("nan"), [[None]], {})
    if isinstance(value, torch.Tensor):
        yield from (torch.zeros(0), value.unsqueeze(0))
        yield value.float() if value.dtype == torch.uint8 else value.to(torch.float64)
        if value.dim():
            yield value[1:].clone()
        if value.numel():
            changed = value.contiguous().clone()
            changed.view(-1)[-1] = float("nan") if value.is_floating_point() else 255
            yield changed
            yield torch.full_like(value, float("inf") if value.is_floating_point() else 255)
    elif isinstance(value, list | tuple) and value:
        yield from (list(value[1:]), [*value, value[-1]], [*value[:-1], "other"])
    elif isinstance(value, dict):
        yield {**value, "other": "other"}
    elif isinstance(value, bytes):
        yield from (value[: len(value) // 2], bytes(len(value)))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from (value + 1, True)


def mutated(content: dict[str, Any], place: Place, replacement: Any) -> dict[str, Any]:
    """A copy of the content with another part at one place; the other parts are the same objects."""

    def changed(value: Any, rest: Place) -> Any:
        inside = copy.copy(value) if isinstance(value, dict) else list(value)
        if len(rest) > 1:
            inside[rest[0]] = changed(value[rest[0]], rest[1:])
        elif replacement is DELETED:
            del inside[rest[0]]
        else:
            inside[rest[0]] = replacement
        return inside

    result: dict[str, Any] = changed(content, place)
    return result
