"""The plan of a search: which flags are searched, in which ranges, how, and when a run is given up."""

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeGuard

from option_flags import OPTIONS, Config
from options.command_line import unknown_flag
from options.rules import Rule, UsageError, between, one_of, shown, whole
from sweeps.plan import NAME, RESERVED_FLAGS, as_flags, check_given, checked_run, refuse_flags, refuse_invalid

SEARCH_KEYS = {
    "name": 'a word for the folder, such as "lr"',
    "flags": 'an object of flags that all trials share, such as {"env": "PongNoFrameskip-v4"}',
    "search": 'an object of ranges, such as {"lr": {"low": 1e-4, "high": 1e-3, "log": true}}',
    "trials": "a whole number of at least 1",
    "sampler": 'an object, such as {"type": "tpe"}',
    "pruner": 'an object, such as {"type": "median"}',
    "seeds": "a list of one whole number, such as [1]; train the best flags with more seeds afterwards",
}
RANGE = 'must be an object of "low" and "high" (and "log" or "step"), or of "choices"'
NOT_SEARCHED = {
    "env": "returns of different games cannot be compared",
    "environment_max_steps": "returns after different numbers of steps cannot be compared",
    "stop_at_return": "returns that end runs cannot be compared",
    "seed": "a search would choose the luckiest seed",
}
SAMPLER_KEYS = {"type": one_of("tpe", "random"), "startup_trials": whole(1), "seed": whole(0, 2**32 - 1)}
PRUNER_KEYS = {
    "type": one_of("median", "percentile", "none"),
    "percentile": between(0, 100),
    "startup_trials": whole(0),
    "warmup_steps": whole(0),
    "interval_steps": whole(1),
}
UNUSED_KEYS = {"random": {"startup_trials"}, "median": {"percentile"}, "none": PRUNER_KEYS.keys() - {"type"}}
DEFAULT_TRIALS = 20


@dataclass(frozen=True)
class Range:
    """Where the values of one flag are searched: between two numbers, or among choices."""

    kind: type
    low: float = 0
    high: float = 0
    log: bool = False
    step: float | None = None
    choices: tuple[Any, ...] = ()

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.choices or (self.low, self.high)


@dataclass(frozen=True)
class SearchPlan:
    name: str
    flags: Mapping[str, Any]  # of all trials, with the seed
    ranges: Mapping[str, Range]
    trials: int
    sampler: Mapping[str, Any]
    pruner: Mapping[str, Any]
    definition: Mapping[str, Any]  # what must stay as it is when the search goes on


def is_search(definition: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(definition, dict) and "search" in definition


def plan_search(definition: Mapping[str, Any], given: Mapping[str, Any]) -> SearchPlan:
    """The checked search. The flags `given` on the command line take precedence. Raises a UsageError."""
    described = _checked(definition)
    check_given(given)
    seed = given.get("seed", described["seeds"][0])
    flags = as_flags({**described["flags"], **given, "seed": seed})
    ranges = {name: _range(name, entry) for name, entry in described["search"].items()}
    for name in ranges:
        if name in given:
            raise UsageError(f'--{name} is among the ranges of the sweep\'s "search"; leave it out on one side.')
    config = _check_ends(flags, ranges)
    steps = config.run.environment_max_steps
    sampler = {"type": "tpe", "startup_trials": 10, "seed": seed, **described["sampler"]}
    defaults = {"percentile": 25.0, "startup_trials": 5, "warmup_steps": steps // 5}
    pruner = {"type": "median", **defaults, "interval_steps": max(1, steps // 20), **described["pruner"]}
    # When a run ends must stay too, or the returns of old and new trials could not be compared.
    ends = {"environment_max_steps": steps, "stop_at_return": config.run.stop_at_return}
    kept = {"search": described["search"], "sampler": sampler, "pruner": pruner, **ends}
    return SearchPlan(described["name"], flags, ranges, described["trials"], sampler, pruner, kept)


def _checked(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with all of its keys and checked types; missing keys get their defaults."""
    for key in definition:
        if key in ("grid", "runs"):
            raise UsageError(f'a sweep with "search" takes no "{key}": the search chooses the flags; leave one out.')
        if key not in SEARCH_KEYS:
            raise UsageError(f'the sweep has the unknown key "{key}"; with "search" it takes {", ".join(SEARCH_KEYS)}.')
    defaults = {"name": "search", "flags": {}, "trials": DEFAULT_TRIALS, "sampler": {}, "pruner": {}, "seeds": [1]}
    described = {**defaults, **definition}
    seeds, name = described["seeds"], described["name"]
    valid = {
        "name": isinstance(name, str) and re.fullmatch(NAME, name),
        "flags": isinstance(described["flags"], dict),
        "search": isinstance(described["search"], dict) and described["search"],
        "trials": type(described["trials"]) is int and described["trials"] >= 1,
        "sampler": isinstance(described["sampler"], dict),
        "pruner": isinstance(described["pruner"], dict),
        "seeds": isinstance(seeds, list | tuple) and len(seeds) == 1 and type(seeds[0]) is int and seeds[0] >= 0,
    }
    refuse_invalid(SEARCH_KEYS, valid)
    refuse_flags(described["flags"], searched=described["search"])
    described["sampler"] = _checked_object("sampler", described["sampler"], SAMPLER_KEYS, "tpe")
    described["pruner"] = _checked_object("pruner", described["pruner"], PRUNER_KEYS, "median")
    return described


def _checked_object(key: str, entry: Mapping[str, Any], rules: Mapping[str, Rule], default: str) -> dict[str, Any]:
    unused = UNUSED_KEYS.get(str(entry.get("type", default)), set())
    known = [name for name in rules if name not in unused]
    for name in entry:
        if name not in known:
            raise UsageError(f'the sweep\'s "{key}" has the unknown key {shown(name)}; it takes {", ".join(known)}.')
    return {name: rules[name].checked(f'the "{name}" of the sweep\'s "{key}"', value) for name, value in entry.items()}


def _range(name: str, entry: object) -> Range:
    """The checked range of one flag."""
    if name not in OPTIONS:
        raise UsageError(f'the sweep\'s "search": {unknown_flag(name, OPTIONS)}')
    reason = {**RESERVED_FLAGS, **NOT_SEARCHED}.get(name)
    if reason:
        raise UsageError(f'{name} must not be in the sweep\'s "search": {reason}.')
    subject = f'{name} in the sweep\'s "search"'
    if not isinstance(entry, dict) or (set(entry) != {"choices"} and not {"low", "high"} <= set(entry)):
        raise UsageError(f"{subject} {RANGE}, not {shown(entry)}.")
    kind = OPTIONS[name].metadata["rule"].kind
    return _choices(subject, kind, entry["choices"]) if "choices" in entry else _numbers(subject, kind, entry)


def _choices(subject: str, kind: type, choices: object) -> Range:
    if not isinstance(choices, list | tuple) or not choices:
        raise UsageError(f'the "choices" of {subject} must be a list with at least one value, not {shown(choices)}.')
    values = tuple(as_flags(dict(enumerate(choices))).values())  # type: ignore[arg-type]
    for value, other in itertools.combinations(values, 2):
        if value == other:
            raise UsageError(f'the "choices" of {subject} have {shown(value)} twice; give it once.')
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise UsageError(f'the "choices" of {subject} must be values of the flag, not {shown(value)}.')
    return Range(kind, choices=values)


def _numbers(subject: str, kind: type, entry: Mapping[str, Any]) -> Range:
    if set(entry) - {"low", "high", "log", "step"}:
        raise UsageError(f"{subject} {RANGE}, not {shown(entry)}.")
    if kind not in (int, float):
        raise UsageError(f'{subject} must be an object of "choices", because its values are not numbers.')
    low, high, log, step = entry["low"], entry["high"], entry.get("log", False), entry.get("step")
    for key in ("low", "high", "step"):
        value = entry.get(key)
        if value is not None and not _is_number(value, kind):
            wanted = "a whole number" if kind is int else "a number"
            raise UsageError(f'the "{key}" of {subject} must be {wanted}, not {shown(value)}.')
    if low is None or high is None or not low < high:
        raise UsageError(f'the "low" of {subject} must be below its "high", not {shown(low)} and {shown(high)}.')
    if not isinstance(log, bool):
        raise UsageError(f'the "log" of {subject} must be true or false, not {shown(log)}.')
    if log and (low <= 0 or step is not None):
        raise UsageError(f'{subject} with "log" must have a "low" above 0 and no "step".')
    if step is not None and (step <= 0 or (Decimal(str(high)) - Decimal(str(low))) % Decimal(str(step)) != 0):
        raise UsageError(f'the "step" of {subject} must be above 0 and lead from "low" to "high" in whole steps.')
    return Range(kind, low, high, log, step)


def _is_number(value: object, kind: type) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return kind is float or isinstance(value, int)


def _check_ends(flags: Mapping[str, Any], ranges: Mapping[str, Range]) -> Config:
    """Check both ends of each range, and each choice; return the configuration of one of these runs.

    A value is refused if it is wrong both with the first and with the last values of the other flags. Values that are
    wrong only together are found when a trial has them.
    """
    configs: list[Config] = []
    for name, one in ranges.items():
        for value in one.ends:
            errors: list[UsageError] = []
            for place in (0, -1):
                others = {other: ranges[other].ends[place] for other in ranges}
                try:
                    run = checked_run(f"with {name}={shown(value)}", {**flags, **others, name: value})
                    configs.append(run.config)
                except UsageError as error:
                    errors.append(error)
            if len(errors) == 2:
                raise errors[0]
    return configs[-1]
