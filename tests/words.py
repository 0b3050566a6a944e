"""A configuration from the words of a command line, on top of what a checkpoint may have saved."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from option_flags import Config, given_flags


def parse(words: Sequence[str], base: Mapping[str, Any] = MappingProxyType({})) -> Config:
    return Config.from_flags({**base, **given_flags(words)})
