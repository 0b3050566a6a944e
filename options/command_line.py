"""The command line: absl flags, made from the declared options, and what is said about a mistake in them.

The flags of a command are made when it reads its words. Nothing is defined by an import, and nothing is global.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any

from absl import flags

from options.rules import PATH, SWITCH, SWITCH_VALUES, Options, Rule, UsageError, declared, described, option, shown

UNSET = "unset"  # the value that takes an inherited value of an option back, if it may have none

# What there is in place of a flag that another platform, or the earlier one, has. Where only the name differs, it is an
# alias, and stands with our option.
ENVIRONMENTS = "--envs_per_worker is the number of environments of each worker, and --worker_count that of the workers"
REPLACED_FLAGS = {
    "multiprocessing_backend": "workers are always spawned processes",
    "learner_thread_count": "--learner_threads sets the CPU threads of the learner",
    # Flags of other platforms that mean something else than a flag of ours:
    "gpu": "--device=cuda, or cuda:1 for the second GPU, chooses it; without it a GPU is used if there is one",
    "cuda": "--device=cuda or --device=cpu chooses where the learner computes",
    "n_envs": ENVIRONMENTS,
    "num_envs": ENVIRONMENTS,
    "algo": "--loss chooses between V-trace and IMPACT",
    # Flags of the earlier platform:
    "load_optimizer_save": "a resumed run continues with the saved optimizer; with --load_weights_only it is new",
    "clip_rewards": "--reward_clipping_method sets how rewards are clipped, and none leaves them as they are",
    "debug": "errors of worker processes are always shown with their traceback",
    "actions_count": "the number of actions comes from the environment",
    "observation_shape": "it follows from --frame_scale_resolution, --frames_stacked and --grayscaling_frames",
    "shared_queue_size": "--slots_per_worker sets how far workers may be ahead of the learner",
    "replay_writer_queue_size": "unrolls go from shared memory to the replays without a queue between them",
    "discarding_strategy": 'a full replay replaces its oldest unroll; see "insert_strategy" in docs/replays.md',
    "caching_threads": "--caching mixes batches in one background thread",
    "cache_sample_size": "--cache_output_buffer_size sets how many batches are mixed ahead",
    "verbose_worker_out_int": "--console and --console_period set what is printed, and how often",
    "verbose_learner_out_int": "--console and --console_period set what is printed, and how often",
    "basic_verbose": "--console sets what is printed",
    "worker_verbose": "--console sets what is printed",
    "background_save": "a checkpoint is written between two updates; it takes a fraction of a second",
    "use_additional_scaling_FC_layer": "--feature_out_layer_size sets the size of the features that replays compare",
}


class HelpRequested(Exception):  # noqa: N818  # not an error
    """The command line contains --help; the text is the topic of --help=optimizer."""


@dataclass(frozen=True, kw_only=True)
class FlagFile(Options):
    topic = "Flag file"

    flagfile: str | None = option(
        None,
        PATH,
        "Text file with one flag per line, without quotes around values. Lines that begin with # are comments. "
        "Flags on the command line take precedence.",
    )


class _OptionParser(flags.ArgumentParser[Any]):
    """Converts and checks a value by the option's rule. absl passes a UsageError on as it is."""

    def __init__(self, *, name: str, rule: Rule) -> None:  # by keyword: absl keeps parsers that are made by position
        self._name, self._rule = name, rule
        self.syntactic_help = rule.accepted

    def parse(self, argument: Any) -> Any:
        if self._rule.optional and argument == UNSET:
            return None
        value = self._rule.read(argument) if isinstance(argument, str) else argument  # a default has its type already
        return self._rule.checked(f"--{self._name}", value)


class _OptionFlag(flags.Flag[Any]):
    """A flag that may be given once."""

    def parse(self, argument: Any) -> None:
        if self.present:
            # Without quotes, a shell splits the JSON into several words.
            hint = ", its JSON in single quotes" if self.name == "replay_parameters" else ""
            raise UsageError(f"--{self.name} is given twice; give it once{hint}.")
        super().parse(argument)


class _HelpFlag(flags.BooleanFlag):
    def parse(self, argument: Any) -> None:
        raise HelpRequested(str(argument))


class _Flags(flags.FlagValues):
    """The flags of one command. A flag file is read apart, so that the command line takes precedence over it."""

    def read_flags_from_files(self, argv: Sequence[str], force_gnu: bool = True) -> list[str]:
        return list(argv)


def given_flags(words: Sequence[str], options: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """The options given on a command line and in its flag file, by name: converted and checked.

    Values on the command line take precedence over those in the flag file.
    """
    in_file, on_line = flags_by_place(words, options)
    return {**in_file, **on_line}


def flags_by_place(words: Sequence[str], options: Mapping[str, Field[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options given in the flag file of a command line, and those on the command line itself."""
    on_line = _without_stray_words(words, {**options, **declared(FlagFile)})
    path = on_line.pop("flagfile", None)
    return {} if path is None else flags_of_file(path, options), on_line


def flags_of_file(path: str, options: Mapping[str, Field[Any]]) -> dict[str, Any]:
    try:
        return _without_stray_words(_words_of_file(path), options)
    except UsageError as error:
        raise UsageError(f"--flagfile={path}: {error}") from None


def split_words(words: Sequence[str], options: Mapping[str, Field[Any]]) -> tuple[dict[str, Any], list[str]]:
    """The given values by option name, converted and checked; and the words that belong to no option."""
    values = _make_flags([("Options", options)])
    try:
        others = values(["", *map(_as_absl_writes_it, words)])[1:]
    except flags.UnrecognizedFlagError as error:
        raise unknown_flag(error.flagname, options) from None
    except (flags.Error, ValueError) as error:
        raise UsageError(f"{error}.") from None
    return {name: values[name].value for name in options if values[name].present}, others


def show_help(usage: str, topics: Iterable[type[Options]], wanted: str = "") -> None:
    """Print the usage and the flags by topic; of topics with the wanted word in their names only, if there are any."""
    all_topics = {topic.topic: declared(topic) for topic in topics}
    values = _make_flags(all_topics.items())
    chosen = [topic for topic in all_topics if wanted and wanted.lower() in topic.lower()]
    print("\n".join(map(values.module_help, chosen)) if chosen else f"{usage}\n{values.get_help('', False)}")


def unknown_flag(name: str, options: Mapping[str, Field[Any]]) -> UsageError:
    """The error for a flag that is not among `options`, with what replaces it here, or with one of a similar name."""
    if name in REPLACED_FLAGS:
        return UsageError(f"--{name} has no meaning here: {REPLACED_FLAGS[name]}.")
    by_alias = {alias: own for own, item in options.items() for alias in item.metadata["aliases"]}
    similar = difflib.get_close_matches(name, [*options, *by_alias], n=1)
    meant = by_alias.get(name) or "".join(similar)
    return UsageError(f"--{name} is not a known flag" + (f"; did you mean --{meant}?" if meant else "."))


def flag_words(values: Mapping[str, Any]) -> list[str]:
    """Values by option name as words of a command line."""
    words = []
    for name, value in values.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no{name}")
        else:
            words.append(f"--{name}={UNSET if value is None else value}")
    return words


def _make_flags(topics: Iterable[tuple[str, Mapping[str, Field[Any]]]]) -> flags.FlagValues:
    """absl flags for the options of each topic; in the help, a topic is what a module is for absl."""
    values = _Flags()  # type: ignore[no-untyped-call]  # absl's constructor has no types
    values.set_gnu_getopt(True)
    for topic, options in topics:
        for name, item in options.items():
            rule: Rule = item.metadata["rule"]
            serializer = None if rule is SWITCH else flags.ArgumentSerializer[Any]()
            parser = _OptionParser(name=name, rule=rule)
            flag = _OptionFlag(parser, serializer, name, item.default, described(item), boolean=rule is SWITCH)
            flags.DEFINE_flag(flag, values, topic)
            for alias in item.metadata["aliases"]:
                flags.DEFINE_alias(alias, name, values, "Names on other platforms")
    for name, short in (("help", "h"), ("helpfull", None), ("helpshort", None)):
        help_text = "Show this; --help=optimizer, for example, shows one topic."
        flags.DEFINE_flag(_HelpFlag(name, False, help_text, short_name=short), values, "Help")
    return values


def _as_absl_writes_it(word: str) -> str:
    """--no-use-lstm as --nouse_lstm."""
    flag = re.fullmatch("(--?)([A-Za-z][^=]*)(.*)", word, re.DOTALL)
    return word if flag is None else flag[1] + re.sub("^no_", "no", flag[2].replace("-", "_")) + flag[3]


def _without_stray_words(words: Sequence[str], options: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """The given values. Raises a UsageError about a word that belongs to no flag."""
    given, others = split_words(words, options)
    if not others:
        return given
    word, right = others[0], "every word must be --name=value, --name value or --name."
    replays = str(given.get("replay_parameters", ""))
    if replays.startswith("[") and not replays.endswith("]"):  # a shell has split it at the spaces
        right = "the JSON of --replay_parameters needs single quotes."
    elif word.lower() in SWITCH_VALUES:
        right = f"a switch is written --name, --noname or --name={word}."
    elif choosing := [name for name, item in options.items() if word in item.metadata["rule"].choices]:
        right = f"did you mean --{choosing[0]}={word}?"
    raise UsageError(f"{shown(word)} belongs to no flag; {right}")


def _words_of_file(path: str) -> list[str]:
    """The words of a flag file and of the flag files that it names, as absl reads them."""
    try:
        lines = flags.FlagValues().read_flags_from_files([f"--flagfile={path}"])  # type: ignore[no-untyped-call]
    except flags.CantOpenFlagFileError as error:
        raise UsageError(f"it cannot be read: {error.__context__}.") from None
    except ValueError:
        raise UsageError("it must be a text file in UTF-8.") from None
    lines = [line.removeprefix("\ufeff").strip() for line in lines]  # with which editors of Windows begin a file
    # A line is a flag: `--lr=1e-4` or `--lr 1e-4`. absl takes a comment that is indented for one, too.
    flag_lines = [line for line in lines if line and not line.startswith(("#", "//"))]
    split = [[line] if "=" in line.split()[0] else line.split(maxsplit=1) for line in flag_lines]
    return [word for words in split for word in words]
