"""Reads what a run and the runs that it was resumed from left on disk, once or as it grows: the one reader for curves,
comparisons, scores and dashboard. It reads archives of curves too, as `docs/data` has for the runs of each picture."""

import gzip
import json
import math
import os
import zlib
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from options.rules import UsageError
from run_files.metrics import EPISODES, EVALUATIONS, METRICS, NewLines, flat_numbers, parse_report
from run_files.run_folder import CONFIG, is_job, read_config, run_of_job
from run_files.run_history import EVALUATED_MEAN, Columns, Curve, History, options_of, parent_of, weights_of

MOST_ANCESTORS = 1000
ARCHIVE = ".jsonl.gz"  # the end of the name of an archive


class _RowFile(NewLines):
    """A growing file of which each line is a row, up to `limit` agent steps. Damaged lines are left out."""

    def __init__(self, path: Path, limit: float) -> None:
        self._limit = limit
        self.unreadable = ""  # why nothing can be read
        super().__init__(path)

    def begin_anew(self) -> None:
        super().begin_anew()
        self._changed = True

    def _add(self, line: bytes) -> None:
        """Keep the row in a line. Raises ValueError if it has none."""
        raise NotImplementedError

    def refresh(self) -> bool:
        """Read what is new. Returns whether the rows changed."""
        self._changed, self.unreadable = False, ""
        try:
            for line in self.read():
                self._changed = True
                with suppress(ValueError):
                    self._add(line)
        except OSError as error:
            self.unreadable = error.strerror or str(error)
        return self._changed


class _ReportFile(_RowFile):
    """Reports or evaluations. At most twice `most` are kept, at even distances, and always the newest one.

    The 100,000 reports of a long run would take gigabytes, and a picture has fewer pixels.
    """

    def __init__(self, path: Path, limit: float, most: int) -> None:
        self._most = most
        super().__init__(path, limit)

    def begin_anew(self) -> None:
        super().begin_anew()
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

    def begin_anew(self) -> None:
        super().begin_anew()
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


@dataclass(frozen=True)
class _Part:
    """The files of one run of a lineage, and the agent steps up to which they count."""

    folder: Path
    limit: float
    reports: _ReportFile
    evaluations: _ReportFile
    games: _GameFile | None  # None where they are not wanted

    @property
    def files(self) -> list[_RowFile]:
        return [self.reports, self.evaluations, *([self.games] if self.games else [])]


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
        self._with_games = with_games
        self._within = within
        self._most_reports = most_reports
        self._parts: list[_Part] = []  # the run and its ancestors, oldest first
        self._weights_from: str | None = None

    def refresh(self) -> bool:
        """Read what is new. Returns whether anything changed."""
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
        games = np.concatenate([np.empty((0, 2)), *(part.games.table for part in self._parts if part.games)])
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
        parts = [self._part(self.folder, math.inf)]
        seen = {self.folder.resolve()}
        while len(parts) <= MOST_ANCESTORS:
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
            parts.append(self._part(parent, limit))
        return parts[::-1]

    def _part(self, folder: Path, limit: float) -> _Part:
        reports, evaluations = (
            _ReportFile(folder / name, limit, self._most_reports) for name in (METRICS, EVALUATIONS)
        )
        games = _GameFile(folder / EPISODES, limit) if self._with_games else None
        return _Part(folder, limit, reports, evaluations, games)


def _joined(parts: Sequence[Columns]) -> Columns:
    """The columns of runs one after the other."""
    lengths = [len(next(iter(part.values()), ())) for part in parts]
    return {
        name: np.concatenate(
            [part.get(name, np.full(length, np.nan)) for part, length in zip(parts, lengths, strict=True)]
        )
        for name in dict.fromkeys(name for part in parts for name in part)
    }


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
