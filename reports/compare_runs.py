"""Groups runs of equal configuration, and averages curves over seeds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from options.rules import counted
from reports.configurations import compared_options, group_names
from run_files.run_history import Curve, History, Series

GRID_POINTS = 400


class Group(NamedTuple):
    """Runs of equal configuration; their seeds may differ."""

    name: str  # the options that differ from those of other groups
    env: str
    runs: tuple[History, ...]

    @property
    def seeds(self) -> int:
        """The number of different seeds. A run whose seed is not known counts as one."""
        seeds = [run.options.get("seed") for run in self.runs]
        return len(set(seeds) - {None}) + seeds.count(None)

    @property
    def label(self) -> str:
        """The name, and the number of seeds if there are several runs."""
        return label_of_all([self])


class Band(NamedTuple):
    """Several seeds as one curve: mean, lowest and highest value, in the range that all seeds cover."""

    x: Series
    mean: Series
    low: Series
    high: Series


def group_runs(histories: Sequence[History]) -> list[Group]:
    """Group runs by configuration, in the order of the argument. A run that is given twice counts once.

    A run that another run of its group was resumed from is left out if the other run is longer: its curve is part of
    the other one.
    """
    histories = each_once(histories)
    groups: list[tuple[dict[str, Any], list[History]]] = []
    for history, configuration in zip(histories, compared_options(histories), strict=True):
        runs = next((runs for known, runs in groups if known == configuration), None)
        if runs is None:
            groups.append((configuration, [history]))
        else:
            runs.append(history)
    names = group_names([configuration for configuration, _ in groups])
    return [
        Group(name, str(configuration["env"]), tuple(without_continued(runs)))
        for name, (configuration, runs) in zip(names, groups, strict=True)
    ]


def label_of_all(groups: Sequence[Group]) -> str:
    """The name of one configuration in several games, and how many seeds it has there: `lr 0.001, 2 to 3 seeds`.

    `6 runs of 3 seeds` where a seed has more than one run; nothing about a single run.
    """
    runs, seeds = [len(group.runs) for group in groups], [group.seeds for group in groups]
    how_many = _range(seeds, "seed") if runs == seeds else f"{_range(runs, 'run')} of {_range(seeds, 'seed')}"
    return ", ".join(part for part in (groups[0].name, how_many if max(runs) > 1 else "") if part)


def _range(numbers: Sequence[int], noun: str) -> str:
    low, high = min(numbers), max(numbers)
    return counted(high, noun) if low == high else f"{low:,} to {counted(high, noun)}"


def each_once(histories: Sequence[History]) -> list[History]:
    return list({history.folder.resolve(): history for history in histories}.values())


def without_continued(runs: Sequence[History]) -> list[History]:
    """Leave out runs whose whole curve is part of another run."""
    return [
        run
        for run in runs
        if not any(run.folder.resolve() in other.ancestors and other.agent_steps >= run.agent_steps for other in runs)
    ]


def seed_band(curves: Sequence[Curve]) -> Band:
    """Interpolate all curves at the same points, in the range that all of them cover.

    A curve that ends before another begins has no such range with it, and is left out.
    """
    begin = max(curve.x[0] for curve in curves)
    curves = [curve for curve in curves if curve.x[-1] >= begin]
    x = np.linspace(begin, min(curve.x[-1] for curve in curves), GRID_POINTS)
    values = np.stack([np.interp(x, curve.x, curve.y) for curve in curves])
    return Band(x, values.mean(axis=0), values.min(axis=0), values.max(axis=0))
