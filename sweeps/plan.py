"""The plan of a sweep: all its runs, made from a short definition and checked before the first one starts."""

import itertools
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from option_flags import Config
from options.replay_options import refuse_duplicate_keys
from options.rules import UsageError
from reports.configurations import describe_replays, differing_keys
from wrappers.make_environment import check_environment

KEYS = {
    "name": 'a word for the folder, such as "lr"',
    "flags": 'an object of flags that all runs share, such as {"env": "PongNoFrameskip-v4"}',
    "runs": 'a list of objects of flags, or an object of such objects by name, such as {"slow": {"lr": 1e-4}}',
    "grid": 'an object of lists, such as {"lr": [1e-4, 1e-3], "gamma": [0.99, 0.995]}',
    "seeds": "a list of whole numbers, such as [1, 2]",
}
RESERVED_FLAGS = {  # flags that a sweep sets itself
    "op_mode": "a sweep starts and continues its runs by itself",
    "load_model_url": "a sweep starts and continues its runs by itself",
    "load_weights_only": "a sweep starts and continues its runs by itself",
    "cluster": "--cluster of multi_train.py is for the whole sweep",
    "results_dir": "--sweep_dir sets the folder of a sweep and all its runs",
}
NAME = r"\w[\w.-]*"
MAX_NAME_LENGTH = 80


@dataclass(frozen=True)
class SweepRun:
    """One run: its name, the flags that it is started with, and their configuration."""

    name: str
    flags: Mapping[str, Any]
    config: Config


@dataclass(frozen=True)
class Sweep:
    name: str
    runs: Sequence[SweepRun]

    def differing_flags(self, run: SweepRun) -> str:
        """The flags of the run that are not the same in all runs, without the seed."""
        own = run.config.flags()
        words = {name: f"{name}={own[name]}" for name in self._differing_names}
        if "replay_parameters" in words:
            words["replay_parameters"] = describe_replays(run.config.replay.replays, self._differing_keys)
        return ", ".join(words.values())

    @cached_property
    def _differing_names(self) -> list[str]:
        values = [one.config.flags() for one in self.runs]
        set_somewhere = dict.fromkeys(name for one in self.runs for name in one.flags if name != "seed")
        return [name for name in set_somewhere if any(flags[name] != values[0][name] for flags in values)]

    @cached_property
    def _differing_keys(self) -> set[str]:
        return differing_keys([one.config.replay.replays for one in self.runs])


def read_sweep(path: str) -> object:
    """The content of a JSON file; `plan_sweep` checks it."""
    try:
        return json.loads(
            Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=refuse_duplicate_keys(f"--sweep={path}")
        )
    except OSError as error:
        raise UsageError(f"--sweep={path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--sweep={path} must be a JSON file: {error}.") from None


def plan_sweep(definition: object, given: Mapping[str, Any]) -> Sweep:
    """All runs: each of `runs`, with each point of `grid`, with each of `seeds`.

    The flags `given` on the command line take precedence. Raises a UsageError if anything is wrong.
    """
    described = _checked(definition)
    check_given(given)
    seeds = [given["seed"]] if "seed" in given else described["seeds"]
    runs: list[SweepRun] = []
    for name, overrides in _variants(described["runs"], described["grid"]).items():
        for seed in seeds:
            flags = as_flags({**described["flags"], **overrides, **given, "seed": seed})
            runs.append(checked_run(f"{name}_seed{seed}", flags))
    for first, second in itertools.combinations(runs, 2):
        if first.name == second.name or first.config == second.config:
            raise UsageError(
                f"the sweep's runs {first.name} and {second.name} are the same; runs must differ in a flag, "
                "and the command line sets its flags for all of them."
            )
    return Sweep(described["name"], runs)


def check_given(given: Mapping[str, Any]) -> None:
    """Raise a UsageError if the command line sets a flag that the sweep sets itself, or sets no seed."""
    for name, reason in RESERVED_FLAGS.items():
        if name in given:
            raise UsageError(f"--{name} has no meaning here: {reason}.")
    if "seed" in given and given["seed"] is None:
        raise UsageError("--seed=unset has no meaning here: runs are named by their seeds; --seed=1 would be right.")


def refuse_invalid(keys: Mapping[str, str], valid: Mapping[str, object]) -> None:
    """Raise a UsageError for the first of the `keys` whose value is not valid; it says what would be right."""
    for key, wanted in keys.items():
        if not valid[key]:
            raise UsageError(f'the sweep\'s "{key}" must be {wanted}.')


def refuse_flags(names: Iterable[str], searched: Collection[str] = ()) -> None:
    """Raise a UsageError if one of these flags of a definition is set in another way."""
    reasons = {**dict.fromkeys(searched, "it is searched"), **RESERVED_FLAGS, "seed": 'the sweep\'s "seeds" lists them'}
    for name in names:
        if name in reasons:
            raise UsageError(f"{name} must not be among the sweep's flags: {reasons[name]}.")


def checked_run(name: str, flags: dict[str, Any]) -> SweepRun:
    """The run of this name. Raises a UsageError that names it if main.py would refuse its flags."""
    try:
        config = Config.from_flags(flags)
        check_environment(config.environment, films=config.test.render)
    except UsageError as error:
        named = UsageError(f"the sweep's run {name}: {error}")
        named.details = error.details
        raise named from None
    return SweepRun(name, flags, config)


def _checked(definition: object) -> dict[str, Any]:
    """The definition with all of its keys and checked types; missing keys get their defaults."""
    if not isinstance(definition, dict):
        raise UsageError(f"a sweep must be an object of {', '.join(KEYS)}.")
    for key in definition:
        if key not in KEYS:
            raise UsageError(f'the sweep has the unknown key "{key}"; it takes {", ".join(KEYS)}.')
    described = {"name": "sweep", "flags": {}, "runs": [{}], "grid": {}, "seeds": [1], **definition}
    runs, grid, seeds = described["runs"], described["grid"], described["seeds"]
    groups = list(runs.values()) if isinstance(runs, dict) else runs
    valid = {
        "name": isinstance(described["name"], str) and re.fullmatch(NAME, described["name"]),
        "flags": isinstance(described["flags"], dict),
        "runs": isinstance(groups, list | tuple) and groups and all(isinstance(group, dict) for group in groups),
        "grid": isinstance(grid, dict) and all(isinstance(values, list | tuple) and values for values in grid.values()),
        "seeds": isinstance(seeds, list | tuple) and seeds and all(type(seed) is int for seed in seeds),
    }
    refuse_invalid(KEYS, valid)
    for name, values in grid.items():
        for value, other in itertools.combinations(values, 2):
            if value == other:
                raise UsageError(f'the sweep\'s "grid" has {json.dumps(value)} twice for {name}; give it once.')
    refuse_flags([*described["flags"], *(name for group in groups for name in group), *grid])
    return described


def _variants(runs: Any, grid: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """The flags of every run by its name, without the seed."""
    named = runs if isinstance(runs, dict) else {_label(overrides): overrides for overrides in runs}
    if len(named) < len(runs):
        raise UsageError('two of the sweep\'s "runs" have the same name; write them as an object, each under a name.')
    variants: dict[str, dict[str, Any]] = {}
    for name in runs if isinstance(runs, dict) else ():
        if _as_folder(name) != name:
            raise UsageError(
                f'the sweep\'s "runs" has the name {json.dumps(name)}, which is no name of a folder; at most '
                f"{MAX_NAME_LENGTH} letters, digits and . _ = + - would be right."
            )
    for name, overrides in named.items():
        for values in itertools.product(*grid.values()):
            point = dict(zip(grid, values, strict=True))
            label = "_".join(part for part in (name, _label(point)) if part) or "run"
            label = _as_folder(label)
            if label in variants:
                raise UsageError(f'two of the sweep\'s runs would have the name {label}; give them names in "runs".')
            variants[label] = {**overrides, **point}
    return variants


def _label(overrides: Mapping[str, Any]) -> str:
    parts = []
    for name, value in overrides.items():
        types = [str(entry.get("type")) for entry in value if isinstance(entry, dict)] if _is_list(value) else []
        parts.append("+".join(types) if types else f"{name}={value}")
    return "_".join(parts)


def as_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with lists and objects as the JSON text of a command line."""
    return {
        name: json.dumps(value) if _is_list(value) or isinstance(value, dict) else value
        for name, value in flags.items()
    }


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _as_folder(label: str) -> str:
    """The label as the name of a folder."""
    return re.sub(r"[^\w.=+-]+", "-", label).strip("-.")[:MAX_NAME_LENGTH]
