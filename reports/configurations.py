"""Configurations of runs: the options by which they are compared, and names that say in which of them they differ."""

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from option_flags import OPTIONS, CheckpointOptions, LossOptions, ReportOptions, TestOptions, defaults_beside
from options.presets import is_noframeskip
from options.replay_options import A_REPLAY, REPLAY_KEYS, ReplaySpec, parse_replays
from options.rules import UsageError, declared
from run_files.run_folder import read_config
from run_files.run_history import History

# Options that do not influence learning, and the seed: runs of one group may differ in them.
IGNORED_OPTIONS = {
    *("op_mode", "load_model_url", "load_weights_only", "seed", "stop_at_return"),
    *("run_name", "tags", "results_dir", "worker_timeout", "worker_restart_budget"),
    *(item.name for options in (CheckpointOptions, ReportOptions, TestOptions) for item in fields(options)),
}
# Options without effect in a run that has no replay.
ONLY_WITH_REPLAY = {name for name, item in declared(LossOptions).items() if A_REPLAY in item.metadata["needs"]}
MAX_STEPS, SCHEDULE = "environment_max_steps", "lr_scheduler_steps"


def all_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a run; one that an older run does not have is its default. A cluster's address does not matter."""
    values = {name: options.get(name, item.default) for name, item in OPTIONS.items()}
    return {**values, "cluster": values["cluster"] is not None}


def compared_options(histories: Sequence[History]) -> list[dict[str, Any]]:
    """For each run the options by which it is grouped; all have the same names.

    Runs of an archive do not have `environment_max_steps`, whose effect is the length of the learning-rate schedule.
    If there is such a run, all are compared by this length instead.
    """
    found = [_options_of(history) for history in histories]
    if any(MAX_STEPS not in history.options for history in histories):
        for history, values in zip(histories, found, strict=True):
            del values[MAX_STEPS]
            values[SCHEDULE] = values[SCHEDULE] or _planned_updates(history)
    return found


def _options_of(history: History) -> dict[str, Any]:
    values = all_options(history.options)
    with suppress(UsageError):  # settings of another version are compared as text
        values["replay_parameters"] = parse_replays(str(values["replay_parameters"]))
        if all(replay.type == "queue" for replay in values["replay_parameters"]):
            values |= {name: OPTIONS[name].default for name in ONLY_WITH_REPLAY}
    if values["network"] == "auto":
        values["network"] = _network_by_default(values)
    compared = {name: value for name, value in values.items() if name not in IGNORED_OPTIONS}
    return {**compared, "weights_from": history.weights_from}


def _network_by_default(values: Mapping[str, Any]) -> str:
    """What `auto` chooses for Atari games; elsewhere it depends on the observations."""
    is_84 = values["frame_scale_resolution"] == OPTIONS["frame_scale_resolution"].default
    return "nature" if is_noframeskip(str(values["env"])) and is_84 else "auto"


def _planned_updates(history: History) -> int:
    """The length of the schedule that the run chose; 0 if it is not known."""
    planned = (read_config(history.folder) or {}).get("planned_updates")
    return planned if isinstance(planned, int) else 0


def differing_keys(settings: Sequence[Sequence[ReplaySpec]]) -> set[str]:
    """The optional keys in which replays of the same type and position differ between the settings."""
    seen: dict[tuple[int, str, str], set[object]] = {}
    for replays in settings:
        for place, replay in enumerate(replays):
            for key in _optional_keys(replay.type):
                seen.setdefault((place, replay.type, key), set()).add(getattr(replay, key))
    return {key for (_, _, key), values in seen.items() if len(values) > 1}


def describe_replays(replays: Sequence[ReplaySpec], keys: Collection[str] = (), *, exact: bool = False) -> str:
    """`0.5 queue + 0.5 standard (1,000)`, with the given optional keys; a queue alone is just `queue`.

    Numbers have six digits, or with `exact` all of them.
    """
    words = " + ".join(_replay_in_words(replay, keys, exact) for replay in replays)
    return words.removeprefix("1 ") if all(replay.type == "queue" for replay in replays) else words


def _replay_in_words(replay: ReplaySpec, keys: Collection[str], exact: bool) -> str:
    facts = [] if replay.type == "queue" else [f"{replay.capacity:,}"]
    for key in _optional_keys(replay.type):
        if key in keys:
            value = getattr(replay, key)
            facts.append(f"{key} {_number(value, exact)}" if isinstance(value, float) else f"{key} {value}")
    return f"{_number(replay.sample_ratio, exact)} {replay.type}" + (f" ({', '.join(facts)})" if facts else "")


def _number(value: float, exact: bool) -> str:
    shortest = repr(float(value)).removesuffix(".0")
    return shortest if exact else f"{value:g}"


def _optional_keys(kind: str) -> list[str]:
    """Keys that a label does not always contain. The capacity of a queue matters little, so it is one of them."""
    always = {"type", "sample_ratio"} if kind == "queue" else {"type", "sample_ratio", "capacity"}
    return [key for key in REPLAY_KEYS[kind] if key not in always]


Configuration = Mapping[str, Any]

# The default length of the learning-rate schedule follows from these options.
SETS_SCHEDULE_LENGTH = {
    *(MAX_STEPS, "batch_size", "r_f_steps", "replay_parameters"),
    *("training_fill_in_factor", "caching", "cache_output_buffer_size"),
    *("loss", "impact_uses", "impact_batches"),
}


def group_names(configurations: Sequence[Configuration]) -> list[str]:
    """A name for each of some different configurations. In one game no two have the same name.

    Options that follow from others are named only where they alone separate two configurations.
    """
    differing = _differing(configurations)
    following = _following(configurations, differing)
    shown = [name for name in differing if name not in following and name != "env"]
    names = _names(configurations, shown, exact=False)
    needed = {option for alike in _of_equal_names(configurations, names) for option in _differing(alike)} & following
    if needed:
        shown = [name for name in differing if name in needed or name in shown]
        names = _names(configurations, shown, exact=False)
    # Numbers that differ after their sixth digit.
    return _names(configurations, shown, exact=True) if _of_equal_names(configurations, names) else names


def _differing(configurations: Sequence[Configuration]) -> list[str]:
    first, *others = configurations
    return [name for name in first if any(other[name] != first[name] for other in others)]


def _following(configurations: Sequence[Configuration], differing: Sequence[str]) -> set[str]:
    """The options that follow from others which are named, and from the environment, which has a panel of its own."""
    found = {SCHEDULE} if SETS_SCHEDULE_LENGTH.intersection(differing) else set()
    found |= {name for name in differing if all(each[name] == _default(name, each) for each in configurations)}
    return found.intersection(differing)


def _default(name: str, configuration: Configuration) -> Any:
    """The default of an option, or one that depends on the environment, the protocol or the loss of the run."""
    if name not in OPTIONS:
        return None
    if name == "network":
        return _network_by_default(configuration)
    default = defaults_beside(configuration)[name]
    return parse_replays(default) if name == "replay_parameters" else default


def _of_equal_names(configurations: Sequence[Configuration], names: Sequence[str]) -> list[list[Configuration]]:
    """The configurations of a game that share a name."""
    found: dict[tuple[Any, str], list[Configuration]] = {}
    for each, name in zip(configurations, names, strict=True):
        found.setdefault((each["env"], name), []).append(each)
    return [alike for alike in found.values() if len(alike) > 1]


def _names(configurations: Sequence[Configuration], options: Sequence[str], *, exact: bool) -> list[str]:
    replays = [each["replay_parameters"] for each in configurations]
    keys = differing_keys([each for each in replays if isinstance(each, tuple)])
    return [", ".join(_in_words(name, each[name], keys, exact) for name in options) for each in configurations]


def _in_words(name: str, value: Any, keys: set[str], exact: bool) -> str:
    if name == "replay_parameters":
        return describe_replays(value, keys, exact=exact) if isinstance(value, tuple) else str(value)
    if isinstance(value, bool):
        return name if value else f"no {name}"
    is_rounded = isinstance(value, float) and math.isfinite(value) and not exact
    return f"{name} {value:g}" if is_rounded else f"{name} {value}"
