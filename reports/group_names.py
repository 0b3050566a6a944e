"""Names of configurations: the options in which they differ."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from options.presets import preset
from reports.compared_options import MAX_STEPS, SCHEDULE
from reports.replay_labels import describe_replays, differing_keys

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
    """The options whose values are those that follow from other options which are named."""
    found = {SCHEDULE} if SETS_SCHEDULE_LENGTH.intersection(differing) else set()
    if "protocol" in differing:
        flags = [preset("protocol", each["protocol"]) for each in configurations]
        found |= {
            name
            for name in differing
            if all(each[name] == of.get(name) for each, of in zip(configurations, flags, strict=True))
        }
    return found.intersection(differing)


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
