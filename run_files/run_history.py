"""What a run has left behind in its folder, with that of the runs it goes on from: the material of curves."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from options.rules import UsageError
from run_files.metrics import each_report, flat_numbers

Series: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = dict[str, float]  # of one report, by flat names (`time_shares/update`)
EVALUATED = "eval_"  # how the names of an evaluation's figures begin
EVALUATED_MEAN = f"{EVALUATED}return_mean"
FEW_REPORTS = 4000  # more than a picture has pixels; a long run has a hundred thousand, in gigabytes of memory
BYTES_AT_ONCE = 16 * 1024 * 1024


class Curve(NamedTuple):
    """Points of one figure, in the order they were reported; `x` and `y` are equally long."""

    x: Series
    y: Series


@dataclass(frozen=True)
class History:
    """Reports and games of a whole lineage, oldest first."""

    folder: Path
    options: Mapping[str, Any]  # of the last run
    reports: Sequence[Numbers]
    games: Curve  # agent steps when each game ended, and its return
    evaluations: Sequence[Numbers] = ()
    ancestors: frozenset[Path] = frozenset()  # folders of the runs that it goes on from, and has in its curves

    def curve(self, name: str, x: str = "agent_steps") -> Curve:
        """A figure of the reports by its flat name (`time_shares/update`), against another; gaps are left out."""
        rows = self.evaluations if name.startswith(EVALUATED) else self.reports
        known = [(row[x], row[name]) for row in rows if x in row and name in row]
        points = np.array(known, dtype=np.float64).reshape(-1, 2)
        return Curve(points[:, 0], points[:, 1])

    @property
    def agent_steps(self) -> float:
        """At the last report."""
        return self.reports[-1].get("agent_steps", 0.0) if self.reports else 0.0

    @property
    def return_window(self) -> int:
        """Games that `return_mean` is the mean of; older runs do not say it."""
        return int(self.options.get("avg_buff_size", 100))

    def names(self) -> list[str]:
        """The flat names of all figures that any report or evaluation has."""
        evaluated = (name for row in self.evaluations for name in row if name.startswith(EVALUATED))
        return list(dict.fromkeys([*(name for report in self.reports for name in report), *evaluated]))


def read_history(folder: Path) -> History:
    """The run in `folder` after those that it goes on from, as far as they are still there.

    Raises UsageError where the folder itself is no run's.
    """
    config = _read_config(folder)
    if config is None:
        raise UsageError(
            f"{folder} is no folder of a run, which has a config.json; one such as results/<env>_<time> would be right."
        )
    reports: list[Numbers] = []
    evaluations: list[Numbers] = []
    games: list[Series] = []
    limit = math.inf
    seen: set[Path] = set()
    place: Path | None = folder
    while place is not None and place.resolve() not in seen:
        seen.add(place.resolve())
        lineage = _read_config(place)
        if lineage is None:  # a parent that is gone, and with it the way to its own parent
            break
        reports = _numbers(place / "metrics.jsonl", limit) + reports
        evaluations = _numbers(place / "evaluations.jsonl", limit) + evaluations
        rows = _games(place / "episodes.csv")
        games.insert(0, rows[rows[:, 0] <= limit])
        place, limit = _parent(place, lineage, limit)
    played = np.concatenate(games)
    ancestors = frozenset(seen - {folder.resolve()})
    return History(folder, _options(config), reports, Curve(played[:, 0], played[:, 1]), evaluations, ancestors)


def _numbers(path: Path, limit: float) -> list[Numbers]:
    """What a file of reports says up to some steps; of very many reports some thousand, evenly spread, and the last."""
    kept: list[Numbers] = []
    every, last = 1, None
    try:
        for index, report in enumerate(each_report(path) if path.exists() else ()):
            numbers = flat_numbers(report)
            if numbers.get("agent_steps", math.inf) > limit:
                continue
            last = numbers
            if EVALUATED_MEAN in numbers:
                numbers.pop("seconds", None)  # of an evaluation: they count from its own start
            if index % every == 0:
                kept.append(numbers)
            if len(kept) == 2 * FEW_REPORTS:
                every *= 2
                kept = kept[::2]
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    return kept if last is None or kept[-1] is last else [*kept, last]


def _games(path: Path) -> Series:
    """`[N, 2]`: agent steps and return of each game; the last line may be torn by a kill."""
    parts = [np.empty((0, 2))]
    if path.exists():
        with path.open("rb") as file:
            file.readline()  # the names
            torn = False
            while not torn and (lines := file.readlines(BYTES_AT_ONCE)):
                torn = not lines[-1].endswith(b"\n")
                rows = [line.split(b",")[:2] for line in lines[: len(lines) - torn]]
                parts.append(np.array(rows, dtype=np.float64).reshape(-1, 2))
    return np.concatenate(parts)


def _read_config(folder: Path) -> dict[str, Any] | None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) and isinstance(config.get("options"), dict) else None


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with what the run had where it could choose: so it is no other than one that was told."""
    chosen = (config.get("machine") or {}).get("slots_per_worker")
    return {**config["options"], **({"slots_per_worker": chosen} if chosen else {})}


def _parent(folder: Path, config: Mapping[str, Any], limit: float) -> tuple[Path | None, float]:
    """Where the run that this one goes on from lies, and up to which steps it counts."""
    parent = config.get("parent")
    if not isinstance(parent, Mapping):
        return None, limit
    named = Path(parent["run"])
    # The path is as it was given then; a results folder that has moved since has moved as a whole.
    place = named if named.is_dir() else folder.parent / named.name
    return place, min(limit, float(parent["agent_steps"]))
