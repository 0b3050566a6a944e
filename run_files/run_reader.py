"""Reads what a run and the runs that it was resumed from left on disk, once or as it grows: the one reader for curves,
comparisons, scores and dashboard. It reads archives of curves too, as `docs/data` has for the runs of each picture."""

import gzip
import json
import math
import os
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from options.rules import UsageError
from run_files.metrics import EPISODES, EVALUATIONS, METRICS, NewLines, flat_numbers, parse_report
from run_files.run_folder import CONFIG, is_job, read_config, run_of_job

Series: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = Mapping[str, Series]  # figures of reports by flat name, equally long; NaN where one has none
CHOSEN_NETWORK = "chosen_network"
EVALUATED = "eval_"  # prefix of the names of evaluation figures
EVALUATED_MEAN = f"{EVALUATED}return_mean"
ARCHIVE = ".jsonl.gz"  # the end of the name of an archive


class Curve(NamedTuple):
    """The points of one figure in the order of the reports. `x` and `y` are equally long."""

    x: Series
    y: Series


@dataclass(frozen=True)
class History:
    """The reports and games of a run and all its ancestors, oldest first."""

    folder: Path
    options: Mapping[str, Any]  # of the last run
    reports: Columns
    games: Curve  # agent steps when each game ended, and its return
    evaluations: Columns = field(default_factory=dict)
    ancestors: frozenset[Path] = frozenset()  # folders of the runs that it was resumed from, directly or indirectly
    weights_from: str | None = None  # the checkpoint whose weights its first run started from (--load_weights_only)

    def curve(self, name: str, x: str = "agent_steps") -> Curve:
        """The figure with this flat name (`time_shares/update`) over the figure `x`, where a report has both."""
        columns = self.evaluations if name.startswith(EVALUATED) else self.reports
        if columns is self.evaluations and x not in columns and "agent_steps" in columns:
            columns = {**columns, x: self.at(columns["agent_steps"], x)}
        if x not in columns or name not in columns:
            return Curve(np.empty(0), np.empty(0))
        known = ~(np.isnan(columns[x]) | np.isnan(columns[name]))
        return Curve(columns[x][known], columns[name][known])

    def at(self, steps: Series, figure: str) -> Series:
        """A figure that grows from 0, such as seconds, interpolated at these agent steps; NaN after the last report."""
        known = self.curve(figure)
        order = np.argsort(known.x, kind="stable")
        x, y = (np.append(0.0, column[order]) for column in known)
        found: Series = np.interp(steps, x, y, right=np.nan)
        return found

    @property
    def last(self) -> dict[str, float]:
        """The newest report."""
        return {name: float(column[-1]) for name, column in self.reports.items() if not np.isnan(column[-1])}

    @property
    def agent_steps(self) -> float:
        """The agent steps at the last report."""
        return self.last.get("agent_steps", 0.0)

    @property
    def return_window(self) -> int:
        """The number of games in the moving mean `return_mean`."""
        return int(self.options.get("avg_buff_size", 100))

    def names(self) -> list[str]:
        """The flat names of all figures in any report or evaluation."""
        return [*self.reports, *(name for name in self.evaluations if name.startswith(EVALUATED))]


class _RowFile(NewLines):
    """A growing file of which each line is a row, up to `limit` agent steps. Damaged lines are left out."""

    def __init__(self, path: Path, limit: float) -> None:
        super().__init__(path)
        self._limit = limit
        self.unreadable = ""  # why nothing can be read

    def _add(self, line: bytes) -> None:
        """Keep the row in a line. Raises ValueError if it has none."""
        raise NotImplementedError

    def refresh(self) -> bool:
        """Read what is new. Returns whether the rows changed."""
        changed, self.unreadable = False, ""
        try:
            for line in self.read():
                changed = True
                with suppress(ValueError, RecursionError):  # JSON may have thousands of brackets
                    self._add(line)
        except OSError as error:
            self.unreadable = error.strerror or str(error)
        return changed


class _ReportFile(_RowFile):
    """Reports or evaluations. At most twice `most` are kept, at even distances, and always the newest one.

    The 100,000 reports of a long run would take gigabytes, and a picture has fewer pixels.
    """

    def __init__(self, path: Path, limit: float, most: int) -> None:
        super().__init__(path, limit)
        self._most = most
        self._columns: dict[str, array[float]] = {}
        self._kept, self._count, self._every = 0, 0, 1

    @property
    def columns(self) -> Columns:
        return {name: np.array(column) for name, column in self._columns.items()}

    def _add(self, line: bytes) -> None:
        numbers = flat_numbers(parse_report(line))
        if numbers.get("agent_steps", math.inf) > self._limit:
            return
        if EVALUATED_MEAN in numbers:
            numbers.pop("seconds", None)  # in an evaluation, the seconds count from its own start
        if self._count and (self._count - 1) % self._every:  # the newest so far is at no even distance
            self._keep(slice(self._kept - 1))
        if self._kept == 2 * self._most:
            self._every *= 2
            self._keep(slice(None, None, 2))
        for name in numbers:
            self._columns.setdefault(name, array("d", [math.nan]) * self._kept)
        for name, column in self._columns.items():
            column.append(numbers.get(name, math.nan))
        self._kept += 1
        self._count += 1

    def _keep(self, places: slice) -> None:
        self._columns = {name: column[places] for name, column in self._columns.items()}
        self._kept = len(range(self._kept)[places])


class _GameFile(_RowFile):
    """The games, 16 bytes each: short ones are counted in millions."""

    def __init__(self, path: Path, limit: float) -> None:
        super().__init__(path, limit)
        self._numbers = array("d")  # agent steps when a game ended, and its return, by turns

    @property
    def table(self) -> NDArray[np.float64]:
        """Agent steps and return of each game, `[N, 2]`."""
        return np.array(self._numbers, np.float64).reshape(-1, 2)

    def _add(self, line: bytes) -> None:
        if line.startswith(b"agent_steps,"):  # the header
            return
        steps, value = map(float, line.split(b",", 2)[:2])
        if not (math.isfinite(steps) and math.isfinite(value)):
            raise ValueError
        if steps <= self._limit:
            self._numbers.extend((steps, value))


class _Part:
    """The files of one run of a lineage, and the agent steps up to which they count."""

    def __init__(self, folder: Path, limit: float, most_reports: int, with_games: bool) -> None:
        self.folder, self.limit = folder, limit
        self.reports = _ReportFile(folder / METRICS, limit, most_reports)
        self.evaluations = _ReportFile(folder / EVALUATIONS, limit, most_reports)
        self.games = _GameFile(folder / EPISODES, limit)
        self.files = [self.reports, self.evaluations, *([self.games] if with_games else [])]


class RunReader:
    """The curves of a run as it grows: `refresh` reads what is new, and `history` is all that was read.

    Nothing is raised: `problems` has a sentence for each thing that cannot be read and is left out. A parent is read if
    it is `within` what the viewer may see.
    """

    def __init__(
        self,
        folder: Path,
        *,
        with_games: bool = True,
        within: Callable[[Path], bool] = lambda folder: True,
        most_reports: int = 4000,
    ) -> None:
        self.folder = folder
        self.config: dict[str, Any] = {}  # config.json; empty until it can be read
        self.problems: list[str] = []
        self._within = within
        self._kept = most_reports, with_games  # of each part
        self._parts: list[_Part] = []  # the run and its ancestors, oldest first
        self._weights_from: str | None = None
        self._reading = Lock()  # `refresh` may run in a thread of its own

    def refresh(self) -> bool:
        """Read what is new. Returns whether anything changed."""
        with self._reading:
            changed = False
            if not self._parts:
                config = read_config(self.folder)
                if config is not None:
                    self.config = config
                    self._parts = self._lineage(config)
                    changed = True
            before, self.problems = self.problems, []
            for file in (file for part in self._parts for file in part.files):
                if file.path.parent.is_dir():  # what was read of a deleted run stays
                    changed |= file.refresh()
                if file.unreadable:
                    self.problems.append(f"{file.path} cannot be read ({file.unreadable}).")
            if not self.folder.is_dir():
                kept = " What was read before is shown." if self._parts else ""
                self.problems = [f"The folder of this run has been deleted.{kept}"]
            elif not self._parts:
                self.problems = [f"The {CONFIG} of this run is cut off, damaged, or was not written by a run."]
            return changed or self.problems != before

    @property
    def history(self) -> History:
        with self._reading:
            games = np.concatenate([np.empty((0, 2)), *(part.games.table for part in self._parts)])
            return History(
                self.folder,
                options_of(self.config) if self.config else {},
                _joined([part.reports.columns for part in self._parts]),
                Curve(games[:, 0], games[:, 1]),
                _joined([part.evaluations.columns for part in self._parts]),
                frozenset(part.folder for part in self._parts[:-1]),
                self._weights_from,
            )

    def _lineage(self, config: dict[str, Any]) -> list[_Part]:
        """The run and its ancestors, as far as their folders still exist, oldest first."""
        parts = [_Part(self.folder, math.inf, *self._kept)]
        seen = {self.folder.resolve()}
        while True:
            self._weights_from = weights_of(config)
            try:
                place, limit = parent_of(parts[-1].folder, config, parts[-1].limit)
                parent = None if place is None or not self._within(place) else place.resolve()
            except (KeyError, TypeError, ValueError, OSError, RuntimeError):  # no run wrote it; or a loop of links
                break
            parents_config = None if parent is None else read_config(parent)
            if parent is None or parents_config is None or parent in seen:
                break  # also if the parent is gone: its own parent is unknown then
            seen.add(parent)
            config = parents_config
            parts.append(_Part(parent, limit, *self._kept))
        return parts[::-1]


def _joined(parts: Sequence[Columns]) -> Columns:
    """The columns of runs one after the other."""
    lengths = [len(next(iter(part.values()), ())) for part in parts]
    return {
        name: np.concatenate(
            [part.get(name, np.full(length, np.nan)) for part, length in zip(parts, lengths, strict=True)]
        )
        for name in dict.fromkeys(name for part in parts for name in part)
    }


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with `slots_per_worker` as the run chose it, so that it equals a run with this number as its flag.

    Beside them is the network that `--network=auto` has come to.
    """
    slots, network = (config.get("machine") or {}).get("slots_per_worker"), config.get("network")
    chosen = {"slots_per_worker": slots, CHOSEN_NETWORK: network if isinstance(network, str) else None}
    return {**config["options"], **{name: value for name, value in chosen.items() if value}}


def weights_of(config: Mapping[str, Any]) -> str | None:
    """The checkpoint whose weights the run of this config.json started from (--load_weights_only)."""
    origin = config.get("weights_from")
    found = origin.get("checkpoint") if isinstance(origin, Mapping) else None
    return found if isinstance(found, str) else None


def parent_of(folder: Path, config: Mapping[str, Any], limit: float) -> tuple[Path | None, float]:
    """The folder of the run that this one was resumed from, and the agent steps up to which its reports count."""
    parent = config.get("parent")
    if not isinstance(parent, Mapping):
        return None, limit
    named = Path(parent["run"])
    # The path is as it was given at that time. If the results folder was moved since, the parent lies beside the child.
    # Unlike Path's, os's function has no error for a folder in a home that this user may not enter.
    place = named if os.path.isdir(named) else folder.parent / named.name  # noqa: PTH112
    return place, min(limit, float(parent["agent_steps"]))


def read_history(folder: Path) -> History:
    """Read the run in `folder`, and the runs that it was resumed from as far as their folders still exist.

    Raises UsageError if `folder` is not the folder of a run, or if one of the files cannot be read.
    """
    reader = RunReader(folder)
    reader.refresh()
    if not reader.config:
        is_there = os.path.lexists(folder / CONFIG)
        raise UsageError(
            f"{folder}/config.json is damaged or cannot be read; the folder of another run would be right."
            if is_there
            else f"{folder} is not the folder of a run: it has no config.json; a folder such as "
            "results/<env>_<time> would be right."
        )
    if reader.problems:
        raise UsageError(reader.problems[0])
    return reader.history


def read_histories(path: Path) -> list[History]:
    """The one run of a run folder, all of a sweep's folder, where a job is one run, or all of an archive.

    An archive has compressed JSON lines, one for each run, with its name, its options, and one list of numbers for each
    figure of its reports (null where a report does not have it). Raises UsageError if `path` is none of these.
    """
    if not path.name.endswith(ARCHIVE):
        inside = sorted(file.parent for pattern in ("*", "*/*") for file in path.glob(f"{pattern}/{CONFIG}"))
        if (path / CONFIG).exists() or not inside:
            return [read_history(path)]
        return [read_history(run) for run in inside if not is_job(run.parent) or run == run_of_job(run.parent)]
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        runs = [_archived_run(path, json.loads(line)) for line in lines]
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}).") from None
    except (EOFError, zlib.error, ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is not an archive of curves, as tests.benchmarks.keep_curves makes it.") from None
    if not runs:
        raise UsageError(f"{path} holds no runs.")
    return runs


def _archived_run(path: Path, line: dict[str, Any]) -> History:
    columns = {name: np.array(values, np.float64) for name, values in line["columns"].items()}  # None is NaN
    return History(path / line["name"], line["options"], columns, Curve(np.empty(0), np.empty(0)))
