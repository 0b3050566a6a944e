"""Several runs compared: groups of seeds with their labels and scores, their curves, and one axis for each option."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dashboard.charts import ChartOptions, Frame, Line, line_chart, parallel_chart
from dashboard.results import RunRow
from options.replay_options import REPLAY_KEYS, parse_replays
from options.rules import UsageError
from reports.compare_runs import IGNORED_OPTIONS, Group, all_options, group_runs, seed_band
from reports.number_format import count_or_nothing, game_return
from reports.panels import colour_of, dashes
from reports.scores import game_name
from run_files.job_runs import is_job, run_of_job
from run_files.metrics import EVALUATIONS, METRICS, flat_numbers, last_report
from run_files.run_history import EVALUATED, Curve, History

RETURN = "return_mean"
ALIKE = "all runs alike"
LONGEST_LABEL = 60
LEAST_RUNS, MOST_AXES = 3, 10  # of a chart with one axis for each option


def runs_of_sweep(rows: Sequence[RunRow]) -> list[RunRow]:
    """One run for each job. A job has more if it was started again: their curves are part of its last run's.

    A start that was killed before its first checkpoint is part of none.
    """
    starts = Counter(row.folder.parent for row in rows)
    again = {job: run_of_job(job) for job, count in starts.items() if count > 1 and is_job(job)}
    return [row for row in rows if again.get(row.folder.parent, row.folder) == row.folder]


def group_rows(rows: Sequence[RunRow]) -> list[Group]:
    """The groups of runs by their rows alone. They have no curves yet, and no runs whose curve is part of another's."""
    nothing = Curve(np.empty(0), np.empty(0))
    histories = [
        History(row.folder, row.options, [{"agent_steps": row.agent_steps or 0.0}], nothing, ancestors=row.ancestors,
                weights_from=row.weights_from)
        for row in rows
    ]  # fmt: skip
    return group_runs(histories) if histories else []


def figures_of(rows: Sequence[RunRow]) -> list[str]:
    """The figures that the newest reports and evaluations of these runs have."""
    found = set[str]()
    for row in rows:
        for file, begin in ((METRICS, ""), (EVALUATIONS, EVALUATED)):
            with suppress(OSError, ValueError):
                found |= {name for name in flat_numbers(last_report(row.folder / file) or {}) if name.startswith(begin)}
    return [RETURN, *sorted(found - {RETURN})]


def score_rows(groups: Sequence[Group], rows: Sequence[RunRow]) -> list[dict[str, str]]:
    """The scores of the groups for a table, game by game, the best first."""
    known = {row.folder: row.figures for row in rows}
    scores = []
    for group in groups:
        figures = [known[run.folder] for run in group.runs]
        returns, bests, steps = (
            [each[name] for each in figures if name in each] for name in (RETURN, "return_max", "agent_steps")
        )
        mean = float(np.mean(returns)) if returns else None
        score = {
            "game": game_name(group.env),
            "configuration": group.label or ALIKE,
            "runs": str(len(figures)),
            "mean return": game_return(mean),
            "lowest to highest": f"{game_return(min(returns))} to {game_return(max(returns))}" if returns[1:] else "",
            "best game": game_return(max(bests, default=None)),
            "steps": count_or_nothing(min(steps, default=None)),
        }
        scores.append((score["game"], math.inf if mean is None else -mean, score))
    return [score for _, _, score in sorted(scores, key=lambda each: each[:2])]


def comparison_chart(groups: Sequence[Group], metric: str, frame: Frame) -> ChartOptions:
    """The groups of one game: a line for each, with a band from the lowest to the highest seed."""
    lines = []
    for index, group in enumerate(groups):
        curves = [curve for curve in (_curve(run, metric, frame) for run in group.runs) if len(curve.x)]
        if not curves:
            continue
        label, colour, dashed = group.label or ALIKE, colour_of(index), dashes(index)
        if len(curves) == 1:
            lines.append(Line(label, *curves[0], colour, dashes=dashed))
        else:
            band = seed_band(curves)
            lines.append(Line(label, band.x, band.mean, colour, dashes=dashed, low=band.low, high=band.high))
    return line_chart(lines, frame, labels_below=True)


def _curve(run: History, metric: str, frame: Frame) -> Curve:
    curve = run.curve(metric, frame.axis.figure)
    order = np.argsort(curve.x, kind="stable")
    return Curve(curve.x[order] / frame.axis.unit, curve.y[order])


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
    played = [row for row in rows if row.return_mean is not None]
    all_settings = [settings(row.options) for row in played]
    names = dict.fromkeys(name for one in all_settings for name in one)
    differing = [
        name
        for name in names
        if all(name in one for one in all_settings) and len({repr(one[name]) for one in all_settings}) > 1
    ][:MOST_AXES]
    if len(played) < LEAST_RUNS or not differing:
        return None
    lines = [
        [*(_axis_value(one[name]) for name in differing), row.return_mean]
        for row, one in zip(played, all_settings, strict=True)
    ]
    axes = [*(name.replace("_", " ") for name in differing), "mean return"]
    return parallel_chart(axes, lines, [row.name for row in played])


def _axis_value(value: Any) -> float | str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None if value is None else game_name(str(value))[:LONGEST_LABEL]
