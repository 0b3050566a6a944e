"""What the words of a command line come to: a configuration, or a sentence."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from option_flags import Config
from options.command_line import given_flags
from options.rules import UsageError


def parse(words: Sequence[str], base: Mapping[str, Any] = MappingProxyType({})) -> Config:
    """On top of what a checkpoint may have saved."""
    return Config.from_flags({**base, **given_flags(words)})


def sentence_of(*words: str, base: dict[str, Any] | None = None) -> str:
    """The error that these words end in; checks on the way that it is one line."""
    with pytest.raises(UsageError) as caught:
        parse(words, base or {})
    return one_line(caught.value)


def one_line(error: UsageError) -> str:
    text = str(error)
    assert text.isprintable()
    assert text.endswith((".", "?"))
    return text
