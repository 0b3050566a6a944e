"""Rules for values that were read from a file, such as "a list of whole numbers", and the place where one is broken.

A rule is a function that takes a value and its place in the file, and raises a ContentError if the value is not what
the rule says. Tables and lists are declared from the rules of their parts.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from options.rules import shown

MOST = 2**53  # of a counter: exact as a floating-point number, too

Check = Callable[[Any, str], None]


class ContentError(Exception):
    """A value that is not what was expected, as a phrase without a period: its place, and what would be right."""


def must_be(wanted: str, accepts: Callable[[Any], bool]) -> Check:
    """`wanted` completes the phrase "place must be ..."."""

    def check(value: Any, place: str) -> None:
        if not accepts(value):
            raise ContentError(f"{place} must be {wanted}, not {described(value)}")

    return check


def described(value: Any) -> str:
    """A value for an error message: large ones by their kind and size."""
    if isinstance(value, torch.Tensor):
        finite = "" if _all(torch.isfinite(value)) else " with numbers that are NaN or infinite"
        return f"{str(value.dtype).removeprefix('torch.')} numbers of the shape {list(value.shape)}{finite}"
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    if isinstance(value, dict | list | tuple) and value:
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**18:
        return f"a number of {value.bit_length()} bits"
    return shown(value)


def whole(low: int = 0, high: int = MOST) -> Check:
    wanted = f"a whole number of at least {low}" if high == MOST else f"a whole number between {low} and {high}"
    return must_be(wanted, lambda value: type(value) is int and low <= value <= high)


def number(low: float = -math.inf) -> Check:
    wanted = "a finite number" if low == -math.inf else f"a number of at least {low:g}"
    return must_be(wanted, lambda value: _is_number(value) and math.isfinite(value) and value >= low)


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= MOST)


ANY_NUMBER = must_be("a number", _is_number)  # also NaN, of a figure that is undefined
TEXT = must_be("text", lambda value: isinstance(value, str))
TABLE = must_be("a table", lambda value: isinstance(value, dict))
LIST = must_be("a list", lambda value: isinstance(value, list | tuple))


def nothing_or(check: Check) -> Check:
    """None, or what `check` accepts."""
    return lambda value, place: None if value is None else check(value, place)


def list_of(item: Check, count: int | None = None, most: int | None = None) -> Check:
    """A list whose items follow a rule: exactly `count` of them, or `most` at most."""

    def check(value: Any, place: str) -> None:
        LIST(value, place)
        if (count is not None and len(value) != count) or (most is not None and len(value) > most):
            wanted = f"a list of {count}" if count is not None else f"a list of at most {most}"
            raise ContentError(f"{place} must be {wanted}, not {described(value)}")
        for index, part in enumerate(value):
            item(part, f"{place}[{index}]")

    return check


def tuple_of(*items: Check) -> Check:
    """A list with one rule for each of its items."""

    def check(value: Any, place: str) -> None:
        list_of(lambda _, __: None, len(items))(value, place)
        for index, (item, part) in enumerate(zip(items, value, strict=True)):
            item(part, f"{place}[{index}]")

    return check


def table(required: Mapping[Any, Check], optional: Mapping[Any, Check] | None = None, only: bool = False) -> Check:
    """A table with one rule for each of its keys; with `only`, it must have no others."""
    known = {**required, **(optional or {})}

    def check(value: Any, place: str) -> None:
        TABLE(value, place)
        for key, item in known.items():
            if key in value:
                item(value[key], _inside(place, key))
            elif key in required:
                raise ContentError(f"{_inside(place, key)} is missing")
        unknown = next((key for key in value if only and key not in known), None)
        if unknown is not None:
            raise ContentError(f"{_inside(place, unknown)} is not known")

    return check


def table_of(key: type, item: Check) -> Check:
    """A table with keys of one type, whose values follow one rule."""

    def check(value: Any, place: str) -> None:
        TABLE(value, place)
        for name, part in value.items():
            if type(name) is not key:
                raise ContentError(f"{_inside(place, name)} has a key that is not {key.__name__}")
            item(part, _inside(place, name))

    return check


def tensor(dtype: torch.dtype, *shape: int | None, finite: bool = True, low: float | None = None) -> Check:
    """A tensor of this shape, in which None stands for any length. With `finite`, no number is NaN or infinite; with
    `low`, none is NaN or less."""
    kind = f"{str(dtype).removeprefix('torch.')} numbers of the shape"
    lengths = f"[{', '.join('any' if length is None else str(length) for length in shape)}]"
    quality = "" if not dtype.is_floating_point else ", all finite" if finite else ", without NaN"
    if low is not None:
        quality += f", at least {low:g}"

    def accepts(value: Any) -> bool:
        if not is_tensor(value) or value.dtype != dtype or value.dim() != len(shape):
            return False
        if any(length not in (None, found) for length, found in zip(shape, value.shape, strict=True)):
            return False
        if finite and dtype.is_floating_point and not _all(torch.isfinite(value)):
            return False
        return low is None or _all(value >= low)  # false for NaN

    return must_be(f"{kind} {lengths}{quality}", accepts)


def is_tensor(value: Any) -> bool:
    """Whether the value is an ordinary tensor in memory."""
    return type(value) is torch.Tensor and value.layout == torch.strided and value.device.type == "cpu"


def numbers(*shape: int) -> Check:
    """Nested lists of finite numbers, of this shape."""
    if not shape:
        return number()
    return list_of(numbers(*shape[1:]), shape[0])


def raw_bytes(count: int | None = None) -> Check:
    wanted = "bytes" if count is None else f"{count} bytes"
    return must_be(wanted, lambda value: isinstance(value, bytes) and count in (None, len(value)))


def like(example: Any) -> Check:
    """A value with the keys and types of an example; lists and bytes may have another length."""
    if isinstance(example, dict):
        return table({key: like(item) for key, item in example.items()})
    if isinstance(example, bool):
        return must_be("true or false", lambda value: isinstance(value, bool))
    if isinstance(example, int):
        return must_be("a whole number of at least 0", lambda value: type(value) is int and value >= 0)
    if isinstance(example, float):
        return number()
    if isinstance(example, str):
        return TEXT
    return raw_bytes() if isinstance(example, bytes) else LIST


def _is_generator_state(value: Any) -> bool:
    try:
        np.random.default_rng(0).bit_generator.state = value
    except (TypeError, ValueError, KeyError, OverflowError):
        return False
    return True


def _is_generator_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and _is_generator_state(json.loads(value))
    except (ValueError, RecursionError):
        return False


GENERATOR_TEXT = must_be("the state of a random generator, as JSON", _is_generator_text)


def _all(truths: torch.Tensor) -> bool:
    return bool(truths.all())


def _inside(place: str, key: Any) -> str:
    name = key if isinstance(key, str) and len(key) <= 60 else described(key)
    return f"{place}.{name}" if place else name
