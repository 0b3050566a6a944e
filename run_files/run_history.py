"""The reports, evaluations and games of a run and of the runs that it was resumed from: the data of its curves."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from options.rules import UsageError
from run_files.metrics import EPISODES, EVALUATIONS, METRICS, each_report, flat_numbers
from run_files.run_folder import CONFIG

Series: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = dict[str, float]  # the figures of one report, with flat names (`time_shares/update`)
EVALUATED = "eval_"  # prefix of the names of evaluation figures
EVALUATED_MEAN = f"{EVALUATED}return_mean"
MIN_KEPT_REPORTS = 4000  # more than a picture has pixels; the 100,000 reports of a long run would take gigabytes
BYTES_AT_ONCE = 16 * 1024 * 1024


class Curve(NamedTuple):
    """The points of one figure in the order of the reports. `x` and `y` are equally long."""

    x: Series
    y: Series


@dataclass(frozen=True)
class History:
    """The reports and games of a run and all its ancestors, oldest first."""

    folder: Path
    options: Mapping[str, Any]  # of the last run
    reports: Sequence[Numbers]
    games: Curve  # agent steps when each game ended, and its return
    evaluations: Sequence[Numbers] = ()
    ancestors: frozenset[Path] = frozenset()  # folders of the runs that it was resumed from, directly or indirectly
    weights_from: str | None = None  # the checkpoint whose weights its first run started from (--load_weights_only)

    def curve(self, name: str, x: str = "agent_steps") -> Curve:
        """The figure with this flat name (`time_shares/update`) over the figure `x`, where a report has both."""
        rows = self.evaluations if name.startswith(EVALUATED) else self.reports
        known = [(row[x], row[name]) for row in rows if x in row and name in row]
        points = np.array(known, dtype=np.float64).reshape(-1, 2)
        return Curve(points[:, 0], points[:, 1])

    @property
    def agent_steps(self) -> float:
        """The agent steps at the last report."""
        return self.reports[-1].get("agent_steps", 0.0) if self.reports else 0.0

    @property
    def return_window(self) -> int:
        """The number of games in the moving mean `return_mean`. Older runs did not store it."""
        return int(self.options.get("avg_buff_size", 100))

    def names(self) -> list[str]:
        """The flat names of all figures in any report or evaluation."""
        evaluated = (name for row in self.evaluations for name in row if name.startswith(EVALUATED))
        return list(dict.fromkeys([*(name for report in self.reports for name in report), *evaluated]))


def read_history(folder: Path) -> History:
    """Read the run in `folder`, and the runs that it was resumed from as far as their folders still exist.

    Raises UsageError if `folder` is not the folder of a run.
    """
    config = read_config(folder)
    if config is None:
        is_there = os.path.lexists(folder / CONFIG)
        raise UsageError(
            f"{folder}/config.json is damaged or cannot be read; the folder of another run would be right."
            if is_there
            else f"{folder} is not the folder of a run: it has no config.json; a folder such as "
            "results/<env>_<time> would be right."
        )
    reports: list[Numbers] = []
    evaluations: list[Numbers] = []
    games: list[Series] = []
    limit = math.inf
    seen: set[Path] = set()
    weights_from = None
    place: Path | None = folder
    while place is not None and place.resolve() not in seen:
        seen.add(place.resolve())
        own_config = read_config(place)
        if own_config is None:  # this parent is gone, so its own parent is unknown
            break
        weights_from = weights_of(own_config)
        reports = _numbers(place / METRICS, limit) + reports
        evaluations = _numbers(place / EVALUATIONS, limit) + evaluations
        rows = _games(place / EPISODES)
        games.insert(0, rows[rows[:, 0] <= limit])
        place, limit = parent_of(place, own_config, limit)
    played = np.concatenate(games)
    ancestors = frozenset(seen - {folder.resolve()})
    curve = Curve(played[:, 0], played[:, 1])
    return History(folder, options_of(config), reports, curve, evaluations, ancestors, weights_from)


def _numbers(path: Path, limit: float) -> list[Numbers]:
    """The figures of a file of reports up to `limit` agent steps.

    Of a long file only some thousand reports are kept, at even distances, and the last one.
    """
    kept: list[Numbers] = []
    every, last = 1, None
    try:
        for index, report in enumerate(each_report(path) if path.exists() else ()):
            numbers = flat_numbers(report)
            if numbers.get("agent_steps", math.inf) > limit:
                continue
            last = numbers
            if EVALUATED_MEAN in numbers:
                numbers.pop("seconds", None)  # in an evaluation, the seconds count from its own start
            if index % every == 0:
                kept.append(numbers)
            if len(kept) == 2 * MIN_KEPT_REPORTS:
                every *= 2
                kept = kept[::2]
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    return kept if last is None or kept[-1] is last else [*kept, last]


def _games(path: Path) -> Series:
    """Agent steps and return of each game, `[N, 2]`. An incomplete last line of a killed run is left out."""
    parts = [np.empty((0, 2))]
    try:
        with path.open("rb") as file:
            file.readline()  # the header
            incomplete = False
            while not incomplete and (lines := file.readlines(BYTES_AT_ONCE)):
                incomplete = not lines[-1].endswith(b"\n")
                rows = [line.split(b",")[:2] for line in lines[: len(lines) - incomplete]]
                parts.append(np.array(rows, dtype=np.float64).reshape(-1, 2))
    except FileNotFoundError:  # no game has ended yet
        pass
    except ValueError:
        raise UsageError(f"{path} is damaged: a line of it does not begin with two numbers.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    return np.concatenate(parts)


def read_config(folder: Path) -> dict[str, Any] | None:
    """The content of the run's config.json. None if there is none, or if no run wrote it."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) and isinstance(config.get("options"), dict) else None


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with `slots_per_worker` as the run chose it, so that it equals a run with this number as its flag."""
    chosen = (config.get("machine") or {}).get("slots_per_worker")
    return {**config["options"], **({"slots_per_worker": chosen} if chosen else {})}


def weights_of(config: Mapping[str, Any]) -> str | None:
    """The checkpoint whose weights the run of this config.json started from (--load_weights_only)."""
    origin = config.get("weights_from")
    found = origin.get("checkpoint") if isinstance(origin, Mapping) else None
    return found if isinstance(found, str) else None


def _is_folder(path: Path) -> bool:
    with suppress(OSError):  # a path of another user's may not be readable
        return path.is_dir()
    return False


def parent_of(folder: Path, config: Mapping[str, Any], limit: float) -> tuple[Path | None, float]:
    """The folder of the run that this one was resumed from, and the agent steps up to which its reports count."""
    parent = config.get("parent")
    if not isinstance(parent, Mapping):
        return None, limit
    named = Path(parent["run"])
    # The path is as it was given at that time. If the results folder was moved since, the parent lies beside the child.
    place = named if _is_folder(named) else folder.parent / named.name
    return place, min(limit, float(parent["agent_steps"]))
