"""The plan of a search: which flags are searched, in which ranges, how, and when a run is given up."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from option_flags import OPTIONS, Config
from options.command_line import unknown_flag
from options.rules import SWITCH, Rule, UsageError, between, one_of, shown, whole
from sweeps.plan import (
    FLAGS,
    NAME,
    RESERVED,
    as_text,
    check_given,
    checked_keys,
    checked_run,
    merged_flags,
    refuse_flags,
)
from sweeps.search import Search

SEARCH_KEYS = {
    "name": NAME,
    "flags": FLAGS,
    "search": Rule(dict, 'be an object of ranges, such as {"lr": {"low": 1e-4, "high": 1e-3, "log": true}}', bool),
    "trials": whole(1),
    "sampler": Rule(dict, 'be an object, such as {"type": "tpe"}'),
    "pruner": Rule(dict, 'be an object, such as {"type": "median"}'),
    "seeds": Rule(
        list,
        "be a list of one whole number, such as [1]; train the best flags with more seeds afterwards",
        lambda seeds: len(seeds) == 1 and type(seeds[0]) is int and seeds[0] >= 0,
    ),
}
SAMPLER_KEYS: dict[str, dict[str, Rule]] = {"tpe": {"startup_trials": whole(1)}, "random": {}}  # by type
PRUNING = {"startup_trials": whole(0), "warmup_steps": whole(0), "interval_steps": whole(1)}
PRUNER_KEYS = {"median": PRUNING, "percentile": {"percentile": between(0, 100), **PRUNING}, "none": {}}
NUMBER = Rule(Real, "be a number", math.isfinite)
CHOICES = {"choices": Rule(list, "be a list with at least one value", bool)}
RANGE = {"low": NUMBER, "high": NUMBER, "log": SWITCH, "step": NUMBER}
NOT_SEARCHED = {
    **RESERVED,
    "env": "returns of different games cannot be compared",
    "environment_max_steps": "returns after different numbers of steps cannot be compared",
    "stop_at_return": "returns that end runs cannot be compared",
    "stop_at": "runs with different ends cannot be compared",
    "seed": "a search would choose the luckiest seed",
    "flagfile": 'its place is among "flags"',
}


def plan_search(definition: object, given: Mapping[str, Any], in_file: Mapping[str, Any] | None = None) -> Search:
    """The checked search. Flags take precedence as in `plan_sweep`. Raises a UsageError."""
    in_file = in_file or {}
    defaults: dict[str, Any] = {"name": "search", "flags": {}, "trials": 20, "sampler": {}, "pruner": {}, "seeds": [1]}
    described = defaults | checked_keys("the sweep", definition, SEARCH_KEYS)
    sampler = _checked_by_type("sampler", described["sampler"], "tpe", SAMPLER_KEYS, {"seed": whole(0, 2**32 - 1)})
    pruner = _checked_by_type("pruner", described["pruner"], "median", PRUNER_KEYS, {})
    check_given({**in_file, **given})
    refuse_flags(described["flags"])
    ranges: dict[str, Any] = described["search"]
    for name in ranges:
        if name in given or name in described["flags"]:
            where = "on the command line" if name in given else 'among the sweep\'s "flags"'
            raise UsageError(f'--{name} is {where} and in the sweep\'s "search"; leave it out on one side.')
    seed = {**in_file, **given}.get("seed", described["seeds"][0])
    flags = merged_flags(described["flags"], in_file, given, {"seed": seed})
    space = {name: _distribution(name, entry) for name, entry in ranges.items()}
    configs = _check_ends(flags, space)
    run = configs[-1].run
    # When a run ends must stay too, or the returns of old and new trials could not be compared.
    ends = {name: getattr(run, name) for name in ("environment_max_steps", "stop_at_return", "stop_at")}
    steps = {"warmup_steps": run.environment_max_steps // 5, "interval_steps": max(1, run.environment_max_steps // 20)}
    complete = {
        **described,
        "sampler": {"startup_trials": 10, "seed": seed, **sampler},
        "pruner": {"percentile": 25.0, "startup_trials": 5, **steps, **pruner},
        "ends": ends,
    }
    return Search(complete, flags, space, configs)


def _checked_by_type(
    key: str, entry: Mapping[str, Any], default: str, keys: Mapping[str, Mapping[str, Rule]], common: Mapping[str, Rule]
) -> dict[str, Any]:
    """An object of the definition whose keys depend on its type."""
    kind = one_of(*keys).checked(f'the "type" of the sweep\'s "{key}"', entry.get("type", default))
    rules = {"type": one_of(*keys), **keys[kind], **common}
    return {"type": kind, **checked_keys(f'the sweep\'s "{key}" of type {kind}', entry, rules)}


def _distribution(name: str, entry: object) -> BaseDistribution:
    """The checked range of one flag."""
    subject = f'{name} in the sweep\'s "search"'
    if name in NOT_SEARCHED:
        raise UsageError(f'{name} must not be in the sweep\'s "search": {NOT_SEARCHED[name]}.')
    if name not in OPTIONS:
        raise UsageError(f'the sweep\'s "search": {unknown_flag(name, OPTIONS)}')
    kind = OPTIONS[name].metadata["rule"].kind
    has_choices = kind not in (int, float) or (isinstance(entry, dict) and "choices" in entry)
    values = checked_keys(subject, entry, CHOICES if has_choices else RANGE)
    try:
        if has_choices:
            return CategoricalDistribution([as_text(choice) for choice in values["choices"]])
        low, high, log, step = values["low"], values["high"], values.get("log", False), values.get("step")
        if step and not math.isclose((high - low) / step, round((high - low) / step)):  # Optuna would change `high`
            raise UsageError(f'the "step" of {subject} must lead from its "low" to its "high" in whole steps.')
        if kind is float:
            return FloatDistribution(low, high, log=log, step=step)
        if not all(isinstance(value, int) for value in (low, high, step or 1)):
            raise UsageError(f"{subject} must be an object of whole numbers, not {shown(entry)}.")
        return IntDistribution(low, high, log=log, step=step or 1)
    except KeyError as missing:
        raise UsageError(f"{subject} must be an object with {missing}, not {shown(entry)}.".replace("'", '"')) from None
    except ValueError as error:  # of Optuna
        raise UsageError(f"{subject} is refused by Optuna: {error}") from None


def _ends(one: BaseDistribution) -> Sequence[Any]:
    if isinstance(one, CategoricalDistribution):
        return one.choices
    assert isinstance(one, FloatDistribution | IntDistribution)
    return one.low, one.high


def _check_ends(flags: Mapping[str, Any], space: Mapping[str, BaseDistribution]) -> list[Config]:
    """Check both ends of each range, and each choice; return the configurations of these runs.

    A value is refused if it is wrong both with the first and with the last values of the other flags. Values that are
    wrong only together are found when a trial has them.
    """
    configs: list[Config] = []
    for name, one in space.items():
        for value in _ends(one):
            errors: list[UsageError] = []
            for place in (0, -1):
                others = {other: _ends(space[other])[place] for other in space}
                try:
                    run = checked_run(f"with {name}={shown(value)}", {**flags, **others, name: value})
                    configs.append(run.config)
                except UsageError as error:
                    errors.append(error)
            if len(errors) == 2:
                raise errors[0]
    return configs
