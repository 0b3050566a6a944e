"""Groups runs of equal configuration, labels the groups by the options that differ, and averages curves over seeds."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from option_flags import OPTIONS, CheckpointOptions, ReportOptions, TestOptions
from options.environment_families import is_noframeskip
from options.game_protocols import protocol_flags
from options.replay_options import parse_replays
from options.rules import UsageError
from reports.replay_labels import describe_replays, differing_keys
from run_files.run_history import Curve, History, Series

# Options that do not influence learning, and the seed: runs of one group may differ in them.
IGNORED_OPTIONS = {
    *("op_mode", "load_model_url", "load_weights_only", "seed", "stop_at_return"),
    *("results_dir", "worker_timeout", "worker_restart_budget"),
    *(item.name for options in (CheckpointOptions, ReportOptions, TestOptions) for item in fields(options)),
}
# The default length of the learning-rate schedule follows from these options.
SETS_SCHEDULE_LENGTH = {
    *("environment_max_steps", "batch_size", "r_f_steps", "replay_parameters"),
    *("training_fill_in_factor", "caching", "cache_output_buffer_size"),
    *("loss", "impact_uses", "impact_batches"),
}
# Options without effect in a run that has no replay.
ONLY_WITH_REPLAY = {
    *("use_policy_cloning_loss", "policy_cloning_loss_weight"),
    *("use_value_cloning_loss", "value_cloning_loss_weight"),
}
GRID_POINTS = 400


class Group(NamedTuple):
    """Runs of equal configuration; their seeds may differ."""

    name: str  # the options that differ from those of other groups
    env: str
    runs: tuple[History, ...]

    @property
    def label(self) -> str:
        """The name, and the number of seeds if there are several."""
        seeds = f"{len(self.runs)} seeds" if len(self.runs) > 1 else ""
        return ", ".join(part for part in (self.name, seeds) if part)


class Band(NamedTuple):
    """Several seeds as one curve: mean, lowest and highest value, in the range that all seeds cover."""

    x: Series
    mean: Series
    low: Series
    high: Series


def group_runs(histories: Sequence[History]) -> list[Group]:
    """Group runs by configuration, in the order of the argument.

    A run that another run of its group was resumed from is left out if the other run is longer: its curve is part of
    the other one.
    """
    groups: list[tuple[dict[str, Any], list[History]]] = []
    for history in histories:
        configuration = _compared_options(history)
        runs = next((runs for known, runs in groups if known == configuration), None)
        if runs is None:
            groups.append((configuration, [history]))
        elif history.folder.resolve() not in {run.folder.resolve() for run in runs}:
            runs.append(history)
    configurations = [configuration for configuration, _ in groups]
    differing = [
        name for name in configurations[0] if any(c.get(name) != configurations[0][name] for c in configurations)
    ]
    if SETS_SCHEDULE_LENGTH.intersection(differing) and "lr_scheduler_steps" in differing:
        differing.remove("lr_scheduler_steps")
    if "protocol" in differing:  # the flags that it sets need not be named
        differing = [n for n in differing if any(c[n] != protocol_flags(c["protocol"]).get(n) for c in configurations)]
    names = [name for name in differing if name != "env"]
    keys = differing_keys([c["replay_parameters"] for c in configurations if isinstance(c["replay_parameters"], tuple)])
    return [
        Group(_name(configuration, names, keys), str(configuration["env"]), tuple(last))
        for configuration, runs in groups
        for last in [without_continued(runs)]
    ]


def without_continued(runs: Sequence[History]) -> list[History]:
    """Leave out runs whose whole curve is part of another run."""
    return [
        run
        for run in runs
        if not any(run.folder.resolve() in other.ancestors and other.agent_steps >= run.agent_steps for other in runs)
    ]


def seed_band(curves: Sequence[Curve]) -> Band:
    """Interpolate all curves at the same points, in the range that all of them cover."""
    begin, end = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    x = np.linspace(begin, max(begin, end), GRID_POINTS)
    values = np.stack([np.interp(x, curve.x, curve.y) for curve in curves])
    return Band(x, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def all_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a run; one that an older run does not have is its default. A cluster's address does not matter."""
    values = {name: options.get(name, item.default) for name, item in OPTIONS.items()}
    return {**values, "cluster": values["cluster"] is not None}


def _compared_options(history: History) -> dict[str, Any]:
    """The options by which runs are grouped."""
    values = all_options(history.options)
    with suppress(UsageError):  # settings of another version are compared as text
        values["replay_parameters"] = parse_replays(str(values["replay_parameters"]))
        if all(replay.type == "queue" for replay in values["replay_parameters"]):
            values |= {name: OPTIONS[name].default for name in ONLY_WITH_REPLAY}
    is_84 = values["frame_scale_resolution"] == OPTIONS["frame_scale_resolution"].default
    if values["network"] == "auto" and is_noframeskip(str(values["env"])) and is_84:
        values["network"] = "nature"  # what auto chooses there, and what older runs call it
    compared = {name: value for name, value in values.items() if name not in IGNORED_OPTIONS}
    return {**compared, "weights_from": history.weights_from}


def _name(configuration: Mapping[str, Any], names: Sequence[str], keys: set[str]) -> str:
    return ", ".join(_in_words(name, configuration[name], keys) for name in names)


def _in_words(name: str, value: Any, keys: set[str]) -> str:
    if name == "replay_parameters":
        return describe_replays(value, keys) if isinstance(value, tuple) else str(value)
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} {value:g}" if isinstance(value, float) and math.isfinite(value) else f"{name} {value}"
