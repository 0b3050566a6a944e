"""The reports, games and evaluations of one run and of the runs that it was resumed from, read as they grow."""

import math
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashboard.growing_file import GrowingFile
from dashboard.results_folder import ResultsFolder
from dashboard.run_list import readable_config
from run_files.metrics import EPISODES, EVALUATIONS, METRICS, flat_numbers, parse_report
from run_files.run_history import EVALUATED_MEAN, Curve, History, Numbers, options_of, parent_of, weights_of

MOST_REPORTS, MOST_GAMES = 2000, 6000
MOST_REPORT_BYTES = 48 * 1024 * 1024
MOST_GAME_BYTES = 8 * 1024 * 1024
MOST_ANCESTORS = 50


@dataclass(frozen=True)
class _Part:
    """The files of one run of a lineage, and the agent steps up to which they count."""

    folder: Path
    limit: float
    reports: GrowingFile[Numbers]
    evaluations: GrowingFile[Numbers]
    games: GrowingFile[tuple[float, float]] | None  # None: they are not read

    @property
    def files(self) -> tuple[GrowingFile[Any], ...]:
        return self.reports, self.evaluations, *([] if self.games is None else [self.games])

    def games_that_count(self) -> NDArray[np.float64]:
        """Agent steps and return of each game, [N, 2]."""
        rows = [] if self.games is None else [row for row in self.games.rows if row[0] <= self.limit]
        return np.array(rows, np.float64).reshape(-1, 2)


class RunData:
    """The curves of a run. `refresh` reads what is new; `problems` has a sentence for each thing that is unreadable.

    With `names`, only these figures of the reports are kept, and no games.
    """

    def __init__(
        self,
        results: ResultsFolder,
        folder: Path,
        *,
        names: Collection[str] | None = None,
        most: int = MOST_REPORTS,
        most_bytes: int = MOST_REPORT_BYTES,
    ) -> None:
        self._results = results
        self.folder = folder
        self._names = names
        self._sizes = {"most": most, "most_bytes": most_bytes}
        self.config: dict[str, Any] = {}
        self.problems: list[str] = []
        self._parts: list[_Part] = []  # oldest first; the last one is the run itself
        self._options: dict[str, Any] = {}
        self._weights_from: str | None = None  # of the oldest one

    def refresh(self) -> bool:
        """Read what is new. Returns whether anything changed."""
        problems = []
        changed = False
        if not self._parts:
            config = readable_config(self.folder)
            if config is None:
                self.problems = self._problem_of_config()
                return False
            self.config, self._options = config, options_of(config)
            self._parts = self._lineage(config)
            changed = True
        for part in self._parts:
            for file in part.files:
                try:
                    changed |= file.refresh()
                except OSError as error:
                    problems.append(f"{self._name(file)} cannot be read ({error.strerror}).")
                if file.broken:
                    lines = "1 line is" if file.broken == 1 else f"{file.broken:,} lines are"
                    problems.append(f"{lines} left out of the curves, because {self._name(file)} is damaged there.")
                if file.sampled:
                    problems.append(f"{self._name(file)} is very long; the curves show some thousand of its lines.")
        if not self.folder.is_dir():
            problems = ["The folder of this run has been deleted. The page shows what was read before."]
        changed |= problems != self.problems
        self.problems = problems
        return changed

    @property
    def history(self) -> History:
        games = np.concatenate([np.empty((0, 2)), *(part.games_that_count() for part in self._parts)])
        return History(
            self.folder,
            self._options,
            [row for part in self._parts for row in part.reports.rows if _counts(row, part)],
            Curve(games[:, 0], games[:, 1]),
            self.evaluations,
            frozenset(part.folder for part in self._parts[:-1]),
            self._weights_from,
        )

    @property
    def evaluations(self) -> list[Numbers]:
        return [row for part in self._parts for row in part.evaluations.rows if _counts(row, part)]

    def _problem_of_config(self) -> list[str]:
        if not self.folder.is_dir():
            return ["The folder of this run has been deleted."]
        return ["The config.json of this run is cut off, damaged, or was not written by a run."]

    def _name(self, file: GrowingFile[Any]) -> str:
        own = file.path.parent == self.folder
        return file.path.name if own else self._results.name(file.path)

    def _lineage(self, config: dict[str, Any]) -> list[_Part]:
        """The run and its ancestors in the results folder. Others are not read."""
        parts = [self._part(self.folder, math.inf)]
        while len(parts) < MOST_ANCESTORS:
            try:
                parent, limit = parent_of(parts[-1].folder, config, parts[-1].limit)
            except (KeyError, TypeError, ValueError, OSError):  # not written by a run
                break
            if parent is None or not self._results.inside(parent):
                break
            parent = parent.resolve()
            next_config = readable_config(parent)
            if next_config is None or any(parent == part.folder for part in parts):
                break
            config = next_config
            parts.append(self._part(parent, limit))
        self._weights_from = weights_of(config)
        return parts[::-1]

    def _part(self, folder: Path, limit: float) -> _Part:
        games = GrowingFile(folder / EPISODES, _game, most=MOST_GAMES, most_bytes=MOST_GAME_BYTES)
        return _Part(
            folder,
            limit,
            GrowingFile(folder / METRICS, self._numbers, **self._sizes),
            GrowingFile(folder / EVALUATIONS, self._numbers, **self._sizes),
            games if self._names is None else None,
        )

    def _numbers(self, line: bytes) -> Numbers:
        numbers = flat_numbers(parse_report(line, "the line"))
        if EVALUATED_MEAN in numbers:
            numbers.pop("seconds", None)  # in an evaluation, the seconds count from its own start
        # Interned: the same names in thousands of reports would take most of the memory.
        return {
            sys.intern(name): value for name, value in numbers.items() if self._names is None or name in self._names
        }


def _counts(row: Numbers, part: _Part) -> bool:
    return row.get("agent_steps", math.inf) <= part.limit


def _game(line: bytes) -> tuple[float, float] | None:
    """Agent steps and return of one game; None for the header."""
    if line.startswith(b"agent_steps,"):
        return None
    steps, value = map(float, line.split(b",", 2)[:2])
    if not (math.isfinite(steps) and math.isfinite(value)):
        raise ValueError(line)
    return steps, value
