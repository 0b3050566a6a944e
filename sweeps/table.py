"""The results of a sweep: a table of all its runs, and their curves in one picture."""

import csv
import io
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from machine.program import CHECKOUT
from reports.number_format import NOTHING_YET, count, score
from reports.tables import table_lines
from run_files.run_folder import report_of_job, write_atomically
from sweeps.plan import Sweep
from sweeps.state import SweepRun, SweepState

HEADINGS = {  # by the columns of summary.csv
    "name": "run",
    "differs": "differs in",
    "seed": "seed",
    "status": "status",
    "agent_steps": "steps",
    "return_mean": "mean return",
    "return_max": "best",
    "steps_per_second": "steps/s",
    "folder": "folder",
}
LEFT = {"name", "differs", "status", "folder"}  # columns that are aligned left
Row = dict[str, Any]  # with None for values that do not exist (yet)


def write_table(sweep: Sweep, state: SweepState) -> tuple[Sequence[Row], str]:
    """Write a row for each run to `summary.csv`. Returns the rows, and a line to print about the file."""
    rows = sweep.in_order([_row(sweep, state, run) for run in (*sweep.earlier, *sweep.runs)])
    text, path = io.StringIO(), state.folder / "summary.csv"
    table = csv.DictWriter(text, list(HEADINGS))
    table.writeheader()
    table.writerows(rows)
    try:
        write_atomically(path, text.getvalue().encode())
    except OSError as error:
        return rows, f"the table could not be written ({error.strerror})"
    return rows, f"the table is in {path}"


def _row(sweep: Sweep, state: SweepState, run: SweepRun) -> Row:
    row: Row = dict.fromkeys(HEADINGS)
    row |= {"name": run.name, "differs": sweep.differing_flags(run), "seed": run.config.run.seed}
    row["status"] = state.runs[run.name]["status"]
    newest = report_of_job(state.folder / run.name)
    if newest is not None:
        row["folder"], report = newest
        row |= {name: report.get(name) for name in ("agent_steps", "return_mean", "return_max")}
        row["steps_per_second"] = round(row["agent_steps"] / max(float(str(report["seconds"])), 1e-9), 1)
    return row


def summary_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as aligned lines, without empty columns."""
    used = [name for name in HEADINGS if any(row[name] not in ("", None) for row in rows)]
    cells = [[_cell(name, row[name]) for name in used] for row in rows]
    right = {i for i, name in enumerate(used) if name not in LEFT}
    return table_lines(cells, [HEADINGS[name] for name in used], right=right)


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
