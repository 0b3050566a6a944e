"""The page docs/options.md, made from the options: `python -m tests.options.options_page > docs/options.md`."""

import json
from dataclasses import MISSING, Field, fields
from typing import Any

from option_flags import TOPICS
from options.command_line import UNSET, FlagFile
from options.process_options import SweepOptions
from options.replay_options import REPLAY_KEYS, ReplaySpec
from options.rules import Options, described
from reports.number_format import markdown_table

INTRODUCTION = """\
# Options

All flags of `main.py` by topic. `--help` lists them too, and `--help=optimizer` those of one topic.
`multi_train.py` accepts most of them, and [its own](#sweep).
The defaults are those of Atari games with a NoFrameskip id; some [are different](environments.md#defaults) elsewhere.
A flag is written `--lr=0.001` or `--lr 0.001`; a switch (true or false) is written `--use_lstm` or `--nouse_lstm`.
A resumed run takes its options from the checkpoint. `--cluster=unset` takes none, where the default is `unset`.
A wrong flag or value ends the command with one sentence and exit code 2, before anything starts.

This page is generated from `option_flags.py`: `python -m tests.options.options_page > docs/options.md`."""

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
    topics: list[type[Options]] = [*TOPICS.values(), FlagFile, SweepOptions]
    for topic in topics:
        of_sweeps = ["Of `multi_train.py` only:"] if topic is SweepOptions else []
        rows = [[f"`--{item.name}`", *_default_values_meaning(item)] for item in fields(topic)]
        sections += [f"## {topic.topic}", *of_sweeps, _table(["option", "default", "values", "meaning"], rows)]
    types = {key: [kind for kind, keys in REPLAY_KEYS.items() if key in keys] for key in REPLAY_KEYS["elite"]}
    of = {key: "all" if len(kinds) == len(REPLAY_KEYS) else ", ".join(kinds) for key, kinds in types.items()}
    rows = [[f"`{item.name}`", of[item.name], *_default_values_meaning(item)] for item in fields(ReplaySpec)]
    sections += [REPLAY_KEYS_INTRODUCTION, _table(["key", "of", "default", "values", "meaning"], rows)]
    return "\n\n".join(sections) + "\n"


def _default_values_meaning(item: Field[Any]) -> list[str]:
    text = item.default if isinstance(item.default, str) else json.dumps(item.default, default=str)
    default = "required" if item.default is MISSING else f"`{UNSET if item.default is None else text}`"
    return [default, item.metadata["rule"].accepted, described(item)]


def _table(headings: list[str], rows: list[list[str]]) -> str:
    return "\n".join(markdown_table(rows, headings))


if __name__ == "__main__":
    print(options_page(), end="")
