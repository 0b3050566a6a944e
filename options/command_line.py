"""The words of a command line and of its flagfile, as flags; and the help that lists them all."""

import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any

from absl import flags

from option_flags import OPTIONS, TOPICS, is_switch, unknown_flag
from options.rules import UsageError, shown

HELP_WORDS = {"--help", "--h", "--helpfull", "--helpshort"}
SWITCH_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
HELP_WIDTH = 100


class HelpRequested(Exception):  # noqa: N818  # not an error
    """The command line asks for help_text() and nothing else."""


def given_flags(argv: Sequence[str], others: Iterable[str] = ()) -> dict[str, Any]:
    """What the words after the program's name and their flagfile say, converted but not yet checked.

    The words beat the flagfile. That holds one flag a line, everything after the `=` being its value, without quotes;
    blank lines and lines that begin with # are skipped, and it cannot name another flagfile.
    `others` are flags that the program has read already: a word that is none of ours may have been meant for them.
    """
    words = [_normal(word) for word in argv]
    if HELP_WORDS.intersection(words):
        raise HelpRequested
    given = _read_words(words, others)
    path = given.pop("flagfile", None)
    from_file = {} if path is None else _read_flagfile(path)
    return {**from_file, **given}


def _normal(word: str) -> str:
    """-c-const=1 as --c_const=1; numbers and values stay as they are."""
    return re.sub("^--?[A-Za-z][^=]*", lambda name: "--" + name[0].lstrip("-").replace("-", "_"), word)


class _OnceFlag(flags.Flag[str]):
    def parse(self, argument: str) -> None:
        if self.present:
            torn = ", its JSON in single quotes" if self.name == "replay_parameters" else ""  # else a shell tears it
            raise UsageError(f"--{self.name} is given twice; give it once{torn}.")
        super().parse(argument)


class _FlagWords(flags.FlagValues):
    """absl's reading of words, over our own flags only; what a flagfile says is left to given_flags()."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.set_gnu_getopt(True)
        for name in (*OPTIONS, "flagfile"):
            self[name] = _OnceFlag(flags.ArgumentParser(), None, name, None, None, boolean=is_switch(name))

    def read_flags_from_files(self, argv: Sequence[str], force_gnu: bool = True) -> list[str]:
        return list(argv)


def _read_words(words: Sequence[str], others: Iterable[str] = ()) -> dict[str, Any]:
    """The given flags by name, with values converted but not yet checked."""
    if any(word.partition("=")[0] == "--undefok" for word in words):  # absl would let unknown flags pass
        raise unknown_flag("undefok")
    known = _FlagWords()
    try:
        stray = known(["", *words])[1:]
    except flags.UnrecognizedFlagError as error:
        raise unknown_flag(error.flagname, others) from None
    except flags.Error:  # all that is left: the words end where a value should follow
        raise UsageError(f"{words[-1]} needs a value: {words[-1]}=...") from None
    except ValueError as error:  # --noname=value; absl's sentence begins with the word
        name = str(error).partition("=")[0]
        raise UsageError(f"{name} takes no value; write {name} alone.") from None
    if stray or "--" in words:
        raise _stray_word(words, [*stray, "--"][0])
    return {name: _spelled(name, known[name].value or "") for name in known if known[name].present}


def _spelled(name: str, text: str) -> Any:
    """The number or switch that the text spells; where it spells none, the text itself, for the rule to refuse."""
    kind = OPTIONS[name].metadata["rule"].kind if name in OPTIONS else str
    if kind is bool:
        return SWITCH_WORDS.get(text.lower(), text)
    try:
        number = text if kind is str else float(text)
        # By way of Decimal 1e6 is a whole number too, and a large one keeps all its digits.
        return int(Decimal(text)) if kind is int and Decimal(text) % 1 == 0 else number
    except (ValueError, ArithmeticError):
        return text


def _read_flagfile(path: str) -> dict[str, Any]:
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
        given = _read_words([_normal(word) for word in words])
    except UsageError as error:
        raise UsageError(f"--flagfile={path}: {error}") from None
    if "flagfile" in given:
        raise UsageError(f"--flagfile={path}: a flagfile must not name another one; give --flagfile once.")
    for name, value in given.items():
        OPTIONS[name].metadata["rule"].checked(f"--flagfile={path}: --{name}", value)
    return given


def _stray_word(words: Sequence[str], stray: str) -> UsageError:
    if any(word.startswith("--replay_parameters=[") and not word.endswith("]") for word in words):
        return UsageError(f"{shown(stray)} belongs to no flag; the JSON of --replay_parameters needs single quotes.")
    for before, word in itertools.pairwise(words):
        if word == stray and word.lower() in SWITCH_WORDS and is_switch(before.removeprefix("--")):
            return UsageError(f"{before} {word} must be one word; write {before}={word}.")
    return UsageError(f"{shown(stray)} belongs to no flag; every word must be --name=value, --name value or --name.")


def help_text() -> str:
    """All flags by topic, each with its default and its sentence."""
    lines = [
        "usage: python main.py [--name=value ...] [--flagfile=path]",
        "",
        "  python main.py --op_mode=train                          train on Pong with the defaults",
        "  python main.py --env=BreakoutNoFrameskip-v4 --seed=1    another game, a fixed seed",
        "  python main.py --flagfile=my.flags --lr=3e-4            flags from a file; the command line wins",
        "  python main.py --op_mode=train_w_load --load_model_url=results/<run>        go on with a run",
        "  python main.py --op_mode=test --load_model_url=results/<run> --render  score an agent and film it",
        "",
        "Switches are written --name or --noname. A dash in a name counts as an underscore.",
    ]
    for topic in TOPICS.values():
        lines += ["", topic.topic]
        for item in fields(topic):
            rule, default = item.metadata["rule"], item.default
            name = f"--[no]{item.name}" if rule.kind is bool else f"--{item.name}"
            shown = "unset" if default is None else default if isinstance(default, str) else json.dumps(default)
            sentence = item.metadata["help"] + (f" One of {', '.join(rule.choices)}." if rule.choices else "")
            lines.append(f"  {name}  (default: {shown})")
            lines += textwrap.wrap(sentence, HELP_WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines)
