"""Which runs belong together, what tells the others apart, and their curves as one."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from option_flags import OPTIONS, CheckpointOptions, ReportOptions, TestOptions
from options.replay_options import parse_replays
from options.rules import UsageError
from reports.replay_labels import replays_in_words, telling_keys
from run_files.run_history import Curve, History, Series

# What runs of equal configuration may differ in.
NO_MATTER = {
    *("op_mode", "load_model_url", "seed", "results_dir", "worker_timeout", "worker_restart_budget"),
    *(item.name for options in (CheckpointOptions, ReportOptions, TestOptions) for item in fields(options)),
}
# The schedule's length follows from these, unless somebody sets it.
BEHIND_THE_SCHEDULE = {"environment_max_steps", "batch_size", "r_f_steps", "replay_parameters"}
# Without a replay nothing is replayed, and these say nothing.
FOR_REPLAYED = {
    *("use_policy_cloning_loss", "policy_cloning_loss_weight"),
    *("use_value_cloning_loss", "value_cloning_loss_weight"),
}
GRID_POINTS = 400


class Group(NamedTuple):
    """Runs of equal configuration, which differ in their seeds."""

    label: str
    env: str
    runs: tuple[History, ...]


class Together(NamedTuple):
    """Several seeds as one: their mean, and the lowest and the highest of them, as far as all of them got."""

    x: Series
    mean: Series
    low: Series
    high: Series


def grouped(histories: Sequence[History]) -> list[Group]:
    """Runs of equal configuration together, in the order in which they are given.

    A run that another of the group goes on from is in that one's curve already, where that one got further.
    """
    groups: list[tuple[dict[str, Any], list[History]]] = []
    for history in histories:
        configuration = _what_matters(history)
        runs = next((runs for known, runs in groups if known == configuration), None)
        if runs is None:
            groups.append((configuration, [history]))
        elif history.folder.resolve() not in {run.folder.resolve() for run in runs}:
            runs.append(history)
    configurations = [configuration for configuration, _ in groups]
    differing = [
        name for name in configurations[0] if any(c.get(name) != configurations[0][name] for c in configurations)
    ]
    if BEHIND_THE_SCHEDULE.intersection(differing) and "lr_scheduler_steps" in differing:
        differing.remove("lr_scheduler_steps")
    names = [name for name in differing if name != "env"]
    keys = telling_keys([c["replay_parameters"] for c in configurations if isinstance(c["replay_parameters"], tuple)])
    return [
        Group(_label(configuration, names, keys, len(last)), str(configuration["env"]), tuple(last))
        for configuration, runs in groups
        for last in [_not_gone_on_from(runs)]
    ]


def _not_gone_on_from(runs: Sequence[History]) -> list[History]:
    """All but those of which another has the curve, and more."""
    return [
        run
        for run in runs
        if not any(run.folder.resolve() in other.ancestors and other.agent_steps >= run.agent_steps for other in runs)
    ]


def together(curves: Sequence[Curve]) -> Together:
    """One grid for all, from where the last of them begins to where the first of them ends."""
    begin, end = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    x = np.linspace(begin, max(begin, end), GRID_POINTS)
    values = np.stack([np.interp(x, curve.x, curve.y) for curve in curves])
    return Together(x, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def _what_matters(history: History) -> dict[str, Any]:
    """Older runs know fewer options than there are now: what they lack was at its default."""
    values = {name: history.options.get(name, item.default) for name, item in OPTIONS.items()}
    with suppress(UsageError):  # what cannot be read any more is compared as it is
        values["replay_parameters"] = parse_replays(str(values["replay_parameters"]))
        if all(replay.type == "queue" for replay in values["replay_parameters"]):
            values |= {name: OPTIONS[name].default for name in FOR_REPLAYED}
    return {name: value for name, value in values.items() if name not in NO_MATTER}


def _label(configuration: Mapping[str, Any], names: Sequence[str], keys: set[str], seeds: int) -> str:
    parts = [_in_words(name, configuration[name], keys) for name in names]
    if seeds > 1:
        parts.append(f"{seeds} seeds")
    return ", ".join(parts)


def _in_words(name: str, value: Any, keys: set[str]) -> str:
    if name == "replay_parameters":
        return replays_in_words(value, keys) if isinstance(value, tuple) else str(value)
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} {value:g}" if isinstance(value, float) and math.isfinite(value) else f"{name} {value}"
