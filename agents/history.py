"""What a run has left behind in its folder, with that of the runs it goes on from: the material of curves."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.sinks import Report, flat_numbers, read_metrics
from option_flags import UsageError

Series: TypeAlias = NDArray[np.float64]
EVALUATED = "eval_"  # how the names of an evaluation's figures begin


class Curve(NamedTuple):
    """Points of one figure, in the order they were reported; `x` and `y` are equally long."""

    x: Series
    y: Series


@dataclass(frozen=True)
class History:
    """Reports and games of a whole lineage, oldest first."""

    folder: Path
    options: Mapping[str, Any]  # of the last run
    reports: Sequence[Report]
    games: Curve  # agent steps when each game ended, and its return
    evaluations: Sequence[Report] = ()

    def curve(self, name: str, x: str = "agent_steps") -> Curve:
        """A figure of the reports by its flat name (`time_shares/update`), against another; gaps are left out."""
        rows = self._evaluated if name.startswith(EVALUATED) else self._numbers
        known = [(row[x], row[name]) for row in rows if x in row and name in row]
        points = np.array(known, dtype=np.float64).reshape(-1, 2)
        return Curve(points[:, 0], points[:, 1])

    @property
    def return_window(self) -> int:
        """Games that `return_mean` is the mean of; older runs do not say it."""
        return int(self.options.get("avg_buff_size", 100))

    def names(self) -> list[str]:
        """The flat names of all figures that any report or evaluation has."""
        evaluated = (name for row in self._evaluated for name in row if name.startswith(EVALUATED))
        return list(dict.fromkeys([*(name for report in self._numbers for name in report), *evaluated]))

    @cached_property
    def _numbers(self) -> list[dict[str, float]]:
        return [flat_numbers(report) for report in self.reports]

    @cached_property
    def _evaluated(self) -> list[dict[str, float]]:
        """Without their seconds, which count from the start of each."""
        rows = [flat_numbers(evaluation) for evaluation in self.evaluations]
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def read_history(folder: Path) -> History:
    """The run in `folder` after those that it goes on from, as far as they are still there.

    Raises UsageError where the folder itself is no run's.
    """
    config = _read_config(folder)
    if config is None:
        raise UsageError(f"{folder} is no folder of a run: it has no readable config.json.")
    reports: list[Report] = []
    evaluations: list[Report] = []
    games: list[Series] = []
    limit = math.inf
    seen: set[Path] = set()
    place: Path | None = folder
    while place is not None and place.resolve() not in seen:
        seen.add(place.resolve())
        lineage = _read_config(place)
        if lineage is None:  # a parent that is gone, and with it the way to its own parent
            break
        reports = [report for report in _reports(place / "metrics.jsonl") if _steps(report) <= limit] + reports
        evaluated = _reports(place / "evaluations.jsonl")
        evaluations = [evaluation for evaluation in evaluated if _steps(evaluation) <= limit] + evaluations
        rows = _games(place / "episodes.csv")
        games.insert(0, rows[rows[:, 0] <= limit])
        place, limit = _parent(place, lineage, limit)
    played = np.concatenate(games)
    return History(folder, config["options"], reports, Curve(played[:, 0], played[:, 1]), evaluations)


def _reports(path: Path) -> list[Report]:
    try:
        return read_metrics(path) if path.exists() else []
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None


def _steps(report: Report) -> float:
    steps = report.get("agent_steps")
    return float(steps) if isinstance(steps, int | float) else math.inf


def _games(path: Path) -> Series:
    """`[N, 2]`: agent steps and return of each game; the last line may be torn by a kill."""
    if not path.exists():
        return np.empty((0, 2))
    lines = path.read_bytes().split(b"\n")[1:-1]
    return np.array([line.split(b",")[:2] for line in lines], dtype=np.float64).reshape(-1, 2)


def _read_config(folder: Path) -> dict[str, Any] | None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) and isinstance(config.get("options"), dict) else None


def _parent(folder: Path, config: Mapping[str, Any], limit: float) -> tuple[Path | None, float]:
    """Where the run that this one goes on from lies, and up to which steps it counts."""
    parent = config.get("parent")
    if not isinstance(parent, Mapping):
        return None, limit
    named = Path(parent["run"])
    # The path is as it was given then; a results folder that has moved since has moved as a whole.
    place = named if named.is_dir() else folder.parent / named.name
    return place, min(limit, float(parent["agent_steps"]))
