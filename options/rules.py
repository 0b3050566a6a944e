"""How an option is declared: its rule for values, and the base class of all option dataclasses."""

import difflib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

SWITCH_VALUES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class UsageError(Exception):
    """A user's mistake, as one sentence on one line: which flag is wrong, and what would be right.

    `details` are lines that are shown before it, such as a traceback of the user's own code.
    """

    def __init__(self, sentence: str, details: str = "") -> None:
        super().__init__(printable(sentence))
        self.details = details

    @property
    def report(self) -> str:
        """What a process of a run says of it to the main process."""
        return f"{self.details}{self}\n"


def printable(text: str, keep: str = "") -> str:
    """Text of users and environments with its control characters as escapes: a terminal would obey them."""
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Rule:
    """The values that one option accepts. `wanted` completes the sentence "--name must ..."."""

    kind: type
    wanted: str
    accepts: Callable[[Any], bool] = lambda value: True
    choices: tuple[str, ...] = ()
    optional: bool = False
    is_path: bool = False  # a ~ at its beginning is the user's home

    def checked(self, subject: str, value: object) -> Any:
        """Return the value in its declared type. Raise a UsageError about `subject` if it is not accepted."""
        if value is None and self.optional:
            return None
        converted = self._converted(value)
        if converted is None or not self.accepts(converted):
            raise UsageError(f"{subject} must {self.wanted}, not {shown(value)}.")
        return converted

    def read(self, text: str) -> Any:
        """The text as a number, a bool or a path. If it is none, the text itself, which `checked` then refuses."""
        if self.kind is bool:
            return SWITCH_VALUES.get(text.lower(), text)
        if self.is_path:  # shells expand a ~ only at the beginning of a word
            return os.path.expanduser(text)  # noqa: PTH111  # a Path would change texts without ~, too
        try:
            number = text if self.kind is str else float(text)
            # With Decimal, 1e6 is a whole number too, and a large number keeps all its digits.
            return int(Decimal(text)) if self.kind is int and Decimal(text) % 1 == 0 else number
        except (ValueError, ArithmeticError):
            return text

    def _converted(self, value: object) -> Any:
        """The value as `kind`, or None if it has another type. An int counts as a float, a bool does not."""
        if isinstance(value, bool) != (self.kind is bool):
            return None
        if self.kind is float and isinstance(value, int):
            return float(value) if abs(value) <= sys.float_info.max else None
        return value if isinstance(value, self.kind) else None

    @property
    def accepted(self) -> str:
        """The accepted values as a phrase, such as "a whole number of at least 1"."""
        return self.wanted.removeprefix("be ")


def shown(value: object) -> str:
    """The value as JSON for an error message, cut after 60 characters."""
    text = json.dumps(value, default=repr, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a sentence: a question with the closest name, or a full stop if no name is close."""
    matches = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {shown(matches[0])}?" if matches else "."


def counted(number: int, noun: str) -> str:
    """Such as "1 worker" or "1,200 processes"."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def whole(low: int, high: int | None = None) -> Rule:
    if high is None:
        return Rule(int, f"be a whole number of at least {low}", lambda v: v >= low)
    return Rule(int, f"be a whole number between {low} and {high}", lambda v: low <= v <= high)


def between(low: float, high: float) -> Rule:
    return Rule(float, f"be a number between {low:g} and {high:g}", lambda v: low <= v <= high)


def at_least(low: float) -> Rule:
    return Rule(float, f"be a number of at least {low:g}", lambda v: low <= v < math.inf)


def above(low: float, high: float = math.inf) -> Rule:
    wanted = f"be a number above {low:g}" + (f" and at most {high:g}" if high < math.inf else "")
    return Rule(float, wanted, lambda v: low < v <= high and v < math.inf)


def one_of(*names: str) -> Rule:
    return Rule(str, f"be one of {', '.join(names)}", lambda v: v in names, choices=names)


def matching(pattern: str, wanted: str, is_path: bool = False) -> Rule:
    """The rule for a text that a regular expression fits."""
    fits = re.compile(pattern).fullmatch
    return Rule(str, wanted, lambda v: fits(v) is not None, is_path=is_path)


SWITCH = Rule(bool, "be true or false")
PATH = matching(r"(?s)[^-].*", "be a path that does not begin with a dash", is_path=True)
ADDRESS = matching(r"[\w:][\w.:-]*", "be an address such as 127.0.0.1")
IMPORTED_NAME = matching(
    r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", "be module:function, such as minigrid.wrappers:ImgObsWrapper"
)
CLUSTER = matching(r"auto|[\w.\[\]:-]+:[0-9]{1,5}", "be auto, or the address of a head such as 192.0.2.1:6379")


class Need(NamedTuple):
    """What an option needs to have an effect: in words, and as a question to a `Config`."""

    words: str
    is_met: Callable[[Any], object]


def flag_given(name: str, *values: str) -> Need:
    """The need for a flag, or for one of these values of it."""
    if values:
        return Need(f"--{name}={' or '.join(values)}", lambda config: config.flags()[name] in values)
    return Need(f"--{name}", lambda config: config.flags()[name])


def option(default: Any, rule: Rule, sentence: str, *needs: Need, aliases: tuple[str, ...] = ()) -> Any:
    """A dataclass field that declares an option; `sentence` is its help, `aliases` are its names on other platforms.

    It may be unset if its default is None.
    """
    if default is None:
        rule = replace(rule, optional=True)
    return field(default=default, metadata={"rule": rule, "help": sentence, "needs": needs, "aliases": aliases})


def switch(default: bool, sentence: str, *needs: Need, aliases: tuple[str, ...] = ()) -> Any:
    """The same for an option that is on or off, which is written --name or --noname."""
    return option(default, SWITCH, sentence, *needs, aliases=aliases)


def described(item: Field[Any]) -> str:
    """What an option is, for --help, docs/options.md and the dashboard."""
    sentence: str = item.metadata["help"]
    aliases = ", ".join(f"--{alias}" for alias in item.metadata["aliases"])
    return f"{sentence} Also: {aliases}." if aliases else sentence


@dataclass(frozen=True)
class Options:
    """Base class of the options of one topic. It checks each field by its rule, then the fields together."""

    topic: ClassVar[str] = "Options"

    def __post_init__(self) -> None:
        for item in fields(self):
            value = item.metadata["rule"].checked(f"--{item.name}", getattr(self, item.name))
            object.__setattr__(self, item.name, value)  # 1 becomes 1.0 in a float field
        self._check_together()

    def _check_together(self) -> None:
        """Raise a UsageError if values that are valid alone contradict each other."""


def declared(*topics: type[Options]) -> dict[str, Field[Any]]:
    """All options of these topics by name."""
    return {item.name: item for topic in topics for item in fields(topic)}
