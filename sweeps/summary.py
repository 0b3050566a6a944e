"""The results of a sweep: a table of all its runs, and their curves in one picture."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from machine.program import CHECKOUT
from reports.number_format import NOTHING_YET, count, score
from reports.tables import table_lines
from run_files.job_runs import report_of_job
from run_files.run_folder import write_atomically
from sweeps.files import LOCK, DamagedFiles, is_complete, is_locked
from sweeps.plan import SweepRun
from sweeps.run_source import RunSource
from sweeps.state import DONE, RUNNING, STOPPED, SweepState

COLUMNS = (
    *("name", "differs", "seed", "status", "agent_steps", "return_mean", "return_max", "steps_per_second"),
    "folder",
)
HEADINGS = ("run", "differs in", "seed", "status", "steps", "mean return", "best", "steps/s", "folder")
Row = dict[str, Any]
InOrder = Callable[[list[Row]], list[Row]]
LEFT = {"name", "differs", "status", "folder"}  # columns that are aligned left


class SweepTable:
    """A row for each run, with None for values that do not exist (yet). `summary.csv` has the same rows."""

    def __init__(
        self, source: RunSource, folder: Path, state: SweepState, damaged: DamagedFiles, in_order: InOrder = list
    ) -> None:
        self.folder = folder
        self._source = source
        self._state = state
        self._damaged = damaged
        self._in_order = in_order

    def rows(self) -> list[Row]:
        return self._in_order([self._row(run) for run in self._source.runs_of_table])

    def _row(self, run: SweepRun) -> Row:
        row: Row = dict.fromkeys(COLUMNS)
        row |= {"name": run.name, "differs": self._source.differing_flags(run), "seed": run.config.run.seed}
        row["status"] = _status(self._state.runs[run.name]["status"], run, self.folder / run.name)
        newest = report_of_job(self.folder / run.name, self._damaged.add)
        if newest is not None:
            row["folder"], report = newest
            row |= {name: report.get(name) for name in ("agent_steps", "return_mean", "return_max")}
            row["steps_per_second"] = round(row["agent_steps"] / max(float(str(report["seconds"])), 1e-9), 1)
        return row

    def write(self, rows: Sequence[Row]) -> str:
        """Write these rows as `summary.csv`; return a line to print about it."""
        text, path = io.StringIO(), self.folder / "summary.csv"
        table = csv.DictWriter(text, COLUMNS)
        table.writeheader()
        table.writerows(rows)
        try:
            write_atomically(path, text.getvalue().encode())
        except OSError as error:
            return f"the table could not be written ({error.strerror})"
        return f"the table is in {path}"


def _status(saved: str, run: SweepRun, job_folder: Path) -> str:
    """The saved status, but not that a run of an earlier, killed sweep is running which has ended since."""
    if saved != RUNNING or is_locked(job_folder / LOCK):
        return saved
    return DONE if is_complete(job_folder, run.config) else STOPPED


def summary_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as aligned lines, without empty columns."""
    used = [name for name in COLUMNS if any(row[name] not in ("", None) for row in rows)]
    headings = [HEADINGS[COLUMNS.index(name)] for name in used]
    cells = [[_cell(name, row[name]) for name in used] for row in rows]
    return table_lines(cells, headings, right={i for i, name in enumerate(used) if name not in LEFT})


def _cell(name: str, value: Any) -> str:
    if value is None:
        return NOTHING_YET
    if name in ("return_mean", "return_max"):
        return score(value)
    return count(value) if name in ("agent_steps", "steps_per_second") else str(value)


def draw_curves(rows: Sequence[Mapping[str, Any]], picture: Path) -> str:
    """Draw the curves of all runs that have any; return a line to print about it."""
    folders = [str(row["folder"]) for row in rows if row["return_mean"] is not None]
    if not folders:
        return "there are no curves to draw yet"
    command = [sys.executable, "-m", "reports.plot", *folders, "--output", str(picture)]
    drawn = subprocess.run(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if drawn.returncode == 0:
        return f"the curves are in {picture}"
    reason = (drawn.stderr.strip().splitlines() or [f"exit code {drawn.returncode}"])[-1]
    return f"the curves could not be drawn: {reason}"
