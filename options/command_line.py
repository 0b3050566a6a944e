"""The parser of command lines: it turns words and a flag file into the values of declared options."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from decimal import Decimal
from typing import Any

from options.rules import PATH, Options, Rule, UsageError, declared, is_switch, option, shown
from options.unknown_names import unknown_flag

FLAG = re.compile("--?(?P<name>[A-Za-z][^=]*)(=(?P<value>.*))?", re.DOTALL)
HELP_NAMES = {"help", "h", "helpfull", "helpshort"}
UNSET = "unset"  # the value that takes an inherited value of an option back, if it may have none
SWITCH_VALUES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class HelpRequested(Exception):  # noqa: N818  # not an error
    """The command line contains --help."""


@dataclass(frozen=True, kw_only=True)
class FlagFile(Options):
    topic = "Flag file"

    flagfile: str | None = option(
        None,
        PATH,
        "Text file with one flag per line, without quotes around values. Lines that begin with # are comments. "
        "Flags on the command line take precedence.",
    )


def given_flags(words: Sequence[str], options: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """The options given on a command line and in its flag file, by name: converted, but not yet checked.

    Values on the command line take precedence over those in the flag file.
    """
    known = {**options, **declared(FlagFile)}
    given, others = split_words(words, known)
    if others:
        raise _word_without_flag(others[0], given)
    path = given.pop("flagfile", None)
    from_file = {} if path is None else _read_flagfile(path, known)
    return {**from_file, **given}


def split_words(words: Sequence[str], options: Mapping[str, Field[Any]]) -> tuple[dict[str, Any], list[str]]:
    """The given values by option name, converted but not yet checked; and the words that belong to no option."""
    flags = [FLAG.fullmatch(word) for word in words]
    if any(flag and flag["name"] in HELP_NAMES for flag in flags):
        raise HelpRequested
    given: dict[str, Any] = {}
    others: list[str] = []
    bare_switch = ""  # the switch in the previous word, if it was given without a value
    remaining = iter(zip(words, flags, strict=True))
    for word, flag in remaining:
        if flag is None:
            if bare_switch and word.lower() in SWITCH_VALUES:
                raise UsageError(f"--{bare_switch} {word} must be one word; write --{bare_switch}={word}.")
            others.append(word)
            bare_switch = ""
            continue
        written, value = flag["name"].replace("-", "_"), flag["value"]
        name = _find_option(written, options)
        if name is None:
            raise unknown_flag(written, options)
        if name in given:
            # Without quotes, a shell splits the JSON into several words.
            hint = ", its JSON in single quotes" if name == "replay_parameters" else ""
            raise UsageError(f"--{name} is given twice; give it once{hint}.")
        bare_switch = name if is_switch(options[name]) and value is None else ""
        if written != name and value is not None:
            raise UsageError(f"--{written} takes no value; write --{written} alone.")
        if bare_switch:
            value = "true" if written == name else "false"
        elif value is None:
            value, next_flag = next(remaining, (None, None))
            if next_flag and _find_option(next_flag["name"].replace("-", "_"), options):
                value = None  # the next word is a flag of its own
        if value is None:
            raise UsageError(f"--{name} needs a value: --{name}=...")
        rule = options[name].metadata["rule"]
        given[name] = None if rule.optional and value == UNSET else _converted(value, rule)
    return given, others


def _find_option(written: str, options: Mapping[str, Field[Any]]) -> str | None:
    """The option that --name or --noname sets, if there is one."""
    if written in options:
        return written
    switch = written.removeprefix("no")
    return switch if switch != written and switch in options and is_switch(options[switch]) else None


def _converted(text: str, rule: Rule) -> Any:
    """The text as a number, a bool or a path. If it is none, the text itself, which the option's rule then refuses."""
    kind = rule.kind
    if kind is bool:
        return SWITCH_VALUES.get(text.lower(), text)
    try:
        if rule.is_path:  # shells expand a ~ only at the beginning of a word
            return os.path.expanduser(text)  # noqa: PTH111  # a Path would change texts without ~, too
        number = text if kind is str else float(text)
        # With Decimal, 1e6 is a whole number too, and a large number keeps all its digits.
        return int(Decimal(text)) if kind is int and Decimal(text) % 1 == 0 else number
    except (ValueError, ArithmeticError):
        return text


def _read_flagfile(path: str, options: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """The checked values of a flag file, which must not name another flag file."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise UsageError(f"--flagfile={path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise UsageError(f"--flagfile={path} must be a text file in UTF-8.") from None
    words: list[str] = []
    for line in lines:
        if line and not line.startswith("#"):
            words += [line] if "=" in line.split()[0] else line.split(maxsplit=1)
    try:
        given, others = split_words(words, options)
        if others:
            raise _word_without_flag(others[0], given)
    except UsageError as error:
        raise UsageError(f"--flagfile={path}: {error}") from None
    if "flagfile" in given:
        raise UsageError(f"--flagfile={path}: a flagfile must not name another one; give --flagfile once.")
    for name, value in given.items():
        options[name].metadata["rule"].checked(f"--flagfile={path}: --{name}", value)
    return given


def _word_without_flag(word: str, given: Mapping[str, Any]) -> UsageError:
    replays = str(given.get("replay_parameters", ""))
    if replays.startswith("[") and not replays.endswith("]"):  # a shell has split it at the spaces
        return UsageError(f"{shown(word)} belongs to no flag; the JSON of --replay_parameters needs single quotes.")
    return UsageError(f"{shown(word)} belongs to no flag; every word must be --name=value, --name value or --name.")


def flag_words(flags: Mapping[str, Any]) -> list[str]:
    """The flags as words of a command line."""
    words = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no{name}")
        else:
            words.append(f"--{name}={UNSET if value is None else value}")
    return words
