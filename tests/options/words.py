"""Helpers: the configuration that a command line gives, or its error message."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from option_flags import OPTIONS, Config, merged
from options.command_line import given_flags
from options.rules import UsageError


def parse(words: Sequence[str], base: Mapping[str, Any] = MappingProxyType({})) -> Config:
    """The configuration of a command line, on top of the options of a checkpoint."""
    return Config.from_flags(merged(base, given_flags(words, OPTIONS)))


def sentence_of(*words: str, base: dict[str, Any] | None = None) -> str:
    """The error message for these words, which must be one line."""
    with pytest.raises(UsageError) as caught:
        parse(words, base or {})
    return one_line(caught.value)


def one_line(error: UsageError) -> str:
    text = str(error)
    assert text.isprintable()
    assert text.endswith((".", "?"))
    return text
