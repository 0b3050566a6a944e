"""The options by which runs are compared: those that influence what is learned."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from option_flags import OPTIONS, CheckpointOptions, LossOptions, ReportOptions, TestOptions
from options.presets import is_noframeskip
from options.replay_options import A_REPLAY, parse_replays
from options.rules import UsageError, declared
from run_files.run_folder import read_config
from run_files.run_history import History

# Options that do not influence learning, and the seed: runs of one group may differ in them.
IGNORED_OPTIONS = {
    *("op_mode", "load_model_url", "load_weights_only", "seed", "stop_at_return"),
    *("results_dir", "worker_timeout", "worker_restart_budget"),
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
    is_84 = values["frame_scale_resolution"] == OPTIONS["frame_scale_resolution"].default
    if values["network"] == "auto" and is_noframeskip(str(values["env"])) and is_84:
        values["network"] = "nature"  # what auto chooses there, and what older runs call it
    compared = {name: value for name, value in values.items() if name not in IGNORED_OPTIONS}
    return {**compared, "weights_from": history.weights_from}


def _planned_updates(history: History) -> int:
    """The length of the schedule that the run chose; 0 if it is not known."""
    planned = (read_config(history.folder) or {}).get("planned_updates")
    return planned if isinstance(planned, int) else 0
