"""The text of --help: all options by topic, each with its help sentence, choices and default."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any

from options.command_line import UNSET
from options.rules import Options, is_switch

WIDTH = 100
INDENT = 36  # the column in which the sentences begin


def show_help(introduction: str, topics: Iterable[type[Options]]) -> None:
    """Print it. A reader such as `head` may close the output before the end."""
    try:
        print(help_text(introduction, topics), flush=True)
    except BrokenPipeError:
        # Python would write what is left, and complain, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def help_text(introduction: str, topics: Iterable[type[Options]]) -> str:
    """The introduction, then the options of each topic in two columns: name and sentence."""
    lines = [introduction]
    for topic in topics:
        lines += ["", topic.topic]
        for item in fields(topic):
            lines += _option_lines(item)
    return "\n".join(lines)


def default_in_words(item: Field[Any]) -> str:
    """The default as it would be written on a command line; "unset" for none."""
    if item.default is None:
        return UNSET
    return item.default if isinstance(item.default, str) else json.dumps(item.default)


def _option_lines(item: Field[Any]) -> list[str]:
    name = f"  --[no]{item.name}" if is_switch(item) else f"  --{item.name}"
    choices = item.metadata["rule"].choices
    sentence = item.metadata["help"] + (f" One of {', '.join(choices)}." if choices else "")
    # A no-break space keeps "(default: 8)" on one line.
    lines = textwrap.wrap(f"{sentence} (default:\u00a0{default_in_words(item)})", WIDTH - INDENT)
    text = [line.replace("\u00a0", " ") for line in lines]
    if len(name) > INDENT - 2:
        return [name, *(" " * INDENT + line for line in text)]
    return [f"{name:<{INDENT}}{text[0]}", *(" " * INDENT + line for line in text[1:])]
