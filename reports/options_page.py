"""The page docs/options.md, made from the declared options: `python -m reports.options_page > docs/options.md`."""

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

from option_flags import TOPICS
from options.command_line import FlagFile
from options.help_text import default_in_words
from options.replay_options import REPLAY_KEYS, ReplaySpec
from options.rules import Options
from options.sweep_options import SweepOptions

INTRODUCTION = """\
# Options

All flags of `main.py` by topic. `--help` lists them too. `multi_train.py` accepts most of them, and [its own](#sweep).
The defaults are those of Atari games with a NoFrameskip id; some [are different](environments.md#defaults) elsewhere.
A flag is written `--lr=0.001` or `--lr 0.001`; a switch (true or false) is written `--use_lstm` or `--nouse_lstm`.
A resumed run takes its options from the checkpoint. `--cluster=unset` takes none, where the default is `unset`.
A wrong flag or value ends the command with one sentence and exit code 2, before anything starts.

This page is generated from `option_flags.py`: `python -m reports.options_page > docs/options.md`."""

SWEEP_INTRODUCTION = "Of `multi_train.py` only:"

REPLAY_KEYS_INTRODUCTION = """\
## Keys of --replay_parameters

`--replay_parameters` is a JSON list with an object for each replay, such as:

```json
[{"type": "queue", "capacity": 1, "sample_ratio": 0.5}, {"type": "standard", "capacity": 1000, "sample_ratio": 0.5}]
```

[What each replay does](replays.md)."""


def options_page() -> str:
    """The whole page as Markdown."""
    sections = [INTRODUCTION]
    topics: list[type[Options]] = [*TOPICS.values(), FlagFile]
    for topic in topics:
        sections += [f"## {topic.topic}", _option_table(topic)]
    sections += [f"## {SweepOptions.topic}", SWEEP_INTRODUCTION, _option_table(SweepOptions)]
    headings = ["key", "of", "default", "values", "meaning"]
    sections += [REPLAY_KEYS_INTRODUCTION, _table(headings, map(_replay_key_row, fields(ReplaySpec)))]
    return "\n\n".join(sections) + "\n"


def _option_table(topic: type[Options]) -> str:
    return _table(["option", "default", "values", "meaning"], map(_row, fields(topic)))


def _row(item: Field[Any]) -> list[str]:
    return [f"`--{item.name}`", f"`{default_in_words(item)}`", item.metadata["rule"].accepted, item.metadata["help"]]


def _replay_key_row(item: Field[Any]) -> list[str]:
    types = [kind for kind, keys in REPLAY_KEYS.items() if item.name in keys]
    of = "all" if len(types) == len(REPLAY_KEYS) else ", ".join(types)
    default = "required" if item.default is MISSING else f"`{default_in_words(item)}`"
    return [f"`{item.name}`", of, default, item.metadata["rule"].accepted, item.metadata["help"]]


def _table(headings: list[str], rows: Iterable[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(options_page(), end="")
