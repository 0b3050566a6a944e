"""Several runs compared: groups of seeds with their labels and scores, their curves, and one axis for each option."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dashboard.charts import ChartOptions, Frame, Line, line_chart, parallel_chart
from dashboard.run_list import RunRow
from options.replay_options import REPLAY_KEYS, parse_replays
from options.rules import UsageError
from reports.compare_runs import Group, group_runs, seed_band
from reports.configurations import IGNORED_OPTIONS, all_options
from reports.panels import XAxis, colour_of, dashes
from reports.published_scores import game_name
from run_files.job_runs import is_job, run_of_job
from run_files.run_history import Curve, History

RETURN_AXIS = "mean return"
LONGEST_LABEL = 60
LEAST_RUNS, MOST_AXES = 3, 10  # of a chart with one axis for each option


class Score(NamedTuple):
    """One configuration: the mean returns of its runs."""

    label: str
    game: str
    runs: int
    mean: float | None
    low: float | None
    high: float | None
    best_game: float | None
    agent_steps: float | None  # of the run with the fewest


def score_groups(groups: Sequence[Group], rows: Sequence[RunRow]) -> list[Score]:
    """The scores of the groups, the best first, game by game."""
    known = {row.folder: row for row in rows}
    scores = []
    for group in groups:
        own = [known[run.folder] for run in group.runs]
        returns = [row.return_mean for row in own if row.return_mean is not None]
        scores.append(
            Score(
                label_of(group),
                game_name(group.env),
                len(own),
                float(np.mean(returns)) if returns else None,
                min(returns, default=None),
                max(returns, default=None),
                max((row.return_max for row in own if row.return_max is not None), default=None),
                min((row.agent_steps for row in own if row.agent_steps is not None), default=None),
            )
        )
    return sorted(scores, key=lambda score: (score.game, -(score.mean if score.mean is not None else -math.inf)))


def label_of(group: Group) -> str:
    return group.label or "all runs alike"


def comparison_chart(groups: Sequence[Group], metric: str, axis: XAxis, frame: Frame) -> ChartOptions:
    """The groups of one game: a line for each, with a band from the lowest to the highest seed."""
    lines = []
    for index, group in enumerate(groups):
        curves = [curve for run in group.runs for curve in [_curve(run, metric, axis)] if len(curve.x)]
        if not curves:
            continue
        colour, label, dashed = colour_of(index), label_of(group), dashes(index)
        if len(curves) == 1:
            lines.append(Line(label, curves[0].x, curves[0].y, colour, dashes=dashed))
            continue
        band = seed_band(curves)
        lines.append(Line(label, band.x, band.mean, colour, dashes=dashed, low=band.low, high=band.high))
    return line_chart(lines, replace(frame, labels_below=True))


def _curve(run: History, metric: str, axis: XAxis) -> Curve:
    curve = run.curve(metric, axis.figure)
    order = np.argsort(curve.x, kind="stable")
    return Curve(curve.x[order] / axis.unit, curve.y[order])


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by which runs differ, each key of each replay on its own."""
    found = {name: value for name, value in all_options(options).items() if name not in IGNORED_OPTIONS}
    with suppress(UsageError):
        replays = parse_replays(str(found["replay_parameters"]))
        del found["replay_parameters"]
        for place, replay in enumerate(replays):
            for key in REPLAY_KEYS[replay.type]:
                found[f"{replay.type} {key}" if key != "type" else f"replay {place + 1}"] = getattr(replay, key)
    return found


def search_chart(rows: Sequence[RunRow]) -> ChartOptions | None:
    """One line for each run across the options that differ and its mean return.

    None if there are too few runs for a picture. Options that only some runs have, such as those of one kind of replay,
    are left out, and so are more than MOST_AXES.
    """
    played = [row for row in rows if row.options is not None and row.return_mean is not None]
    all_settings = [settings(row.options or {}) for row in played]
    names = list(dict.fromkeys(name for one in all_settings for name in one))
    differing = [
        name
        for name in names
        if all(name in one for one in all_settings) and len({repr(one[name]) for one in all_settings}) > 1
    ][:MOST_AXES]
    if len(played) < LEAST_RUNS or not differing:
        return None
    lines = [
        [*(_axis_value(one.get(name)) for name in differing), row.return_mean]
        for row, one in zip(played, all_settings, strict=True)
    ]
    axes = [*(name.replace("_", " ") for name in differing), RETURN_AXIS]
    return parallel_chart(axes, lines, [row.name for row in played], len(differing))


def _axis_value(value: Any) -> float | str | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    return game_name(str(value))[:LONGEST_LABEL]


def without_abandoned(rows: Sequence[RunRow]) -> list[RunRow]:
    """The rows of a sweep, of each job those of its run and that run's ancestors.

    A start that was killed before its first checkpoint is not a parent of the next one, and no further seed.
    """
    starts: dict[Path, dict[Path, RunRow]] = {}
    for row in rows:
        starts.setdefault(row.folder.parent, {})[row.folder] = row
    abandoned: set[Path] = set()
    for job, own in starts.items():
        if len(own) > 1 and is_job(job):
            last = run_of_job(job)
            if last in own:
                abandoned |= own.keys() - {last, *own[last].ancestors}
    return [row for row in rows if row.folder not in abandoned]


def without_curves(rows: Sequence[RunRow]) -> list[Group]:
    """The groups of runs by their rows alone: neither their configurations nor their lineages need their reports."""
    return group_runs([_without_curve(row) for row in rows]) if rows else []


def _without_curve(row: RunRow) -> History:
    # The steps decide whether the run is longer than its parent, whose curve is then part of it.
    steps = [] if row.agent_steps is None else [{"agent_steps": row.agent_steps}]
    nothing = Curve(np.empty(0), np.empty(0))
    return History(
        row.folder, row.options or {}, steps, nothing, ancestors=row.ancestors, weights_from=row.weights_from
    )
