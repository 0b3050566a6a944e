"""The results of a sweep: a table of all its runs, and their curves in one picture."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from options.rules import UsageError
from reports.number_format import count, formatted, number, table_lines
from run_files.run_folder import report_of_job, write_atomically
from run_files.run_reader import read_history
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
}
FOLDER = "folder"  # the last column of summary.csv, in the folder of the sweep
MOST_COLUMNS = 120  # of a terminal
Row = dict[str, Any]  # with None for values that do not exist (yet)


def write_table(sweep: Sweep, state: SweepState) -> tuple[Sequence[Row], str]:
    """Write a row for each run to `summary.csv`. Returns the rows, and a line to print about the file."""
    runs = [*sweep.earlier, *sweep.runs]
    rows = [_row(state, run, words) for run, words in zip(runs, sweep.differences(runs), strict=True)]
    rows = [*sweep.in_order(rows)]
    text, path = io.StringIO(), state.folder / "summary.csv"
    table = csv.DictWriter(text, [*HEADINGS, FOLDER])
    table.writeheader()
    table.writerows(rows)
    try:
        write_atomically(path, text.getvalue().encode())
    except OSError as error:
        return rows, f"the table could not be written ({error.strerror})"
    return rows, f"the table is in {path}"


def _row(state: SweepState, run: SweepRun, differs: str) -> Row:
    row: Row = dict.fromkeys([*HEADINGS, FOLDER])
    row |= {"name": run.name, "differs": differs, "seed": run.config.run.seed, "status": state.runs[run.name]["status"]}
    if (newest := report_of_job(state.folder / run.name)) is not None:
        folder, report = newest
        row[FOLDER] = folder.relative_to(state.folder)
        row |= {name: report.get(name) for name in ("agent_steps", "return_mean", "return_max")}
        row["steps_per_second"] = round(row["agent_steps"] / max(float(str(report["seconds"])), 1e-9), 1)
    return row


def summary_table(rows: Sequence[Row]) -> list[str]:
    """The rows as aligned lines, without empty columns. Where seeds are repeated, a second table has their means."""
    runs_of: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        key = row["name"].removesuffix(f"_seed{row['seed']}"), row["differs"]
        runs_of.setdefault(key, []).append(row)
    repeated = any(len(runs) > 1 for runs in runs_of.values())
    left_out = {"differs"} if repeated else set()  # the second table has it
    used = [name for name in HEADINGS if name not in left_out and any(row[name] not in ("", None) for row in rows)]
    cells = [[_cell(name, row[name]) for name in used] for row in rows]
    lines = _aligned([HEADINGS[name] for name in used], cells, {"run", "differs in", "status"})
    if not repeated:
        return lines
    means = [[*key, *_means(runs)] for key, runs in runs_of.items()]
    headings = ("configuration", "differs in", "runs", "mean return", "lowest", "highest", "steps")
    return [*lines, "", *_aligned(headings, means, {"configuration", "differs in"})]


def _means(runs: Sequence[Row]) -> list[str]:
    """How many runs have a mean return; their mean, the lowest and the highest; and the steps of the shortest one."""
    runs = [run for run in runs if run["return_mean"] is not None]
    returns = [run["return_mean"] for run in runs]
    spread = (sum(returns) / len(returns), min(returns), max(returns)) if returns else (None,) * 3
    return [str(len(returns)), *map(number, spread), count(min((run["agent_steps"] for run in runs), default=None))]


def _aligned(headings: Sequence[str], rows: Sequence[list[str]], left: Collection[str]) -> list[str]:
    """A table that fits a terminal: what is too long in its longest columns ends in `…`."""
    right = {place for place, name in enumerate(headings) if name not in left}
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    while sum(widths) + 2 * len(widths) - 2 > MOST_COLUMNS:
        widths[widths.index(max(widths))] -= 1
    fitting = [
        [cell if len(cell) <= width else f"{cell[: width - 1]}…" for cell, width in zip(row, widths, strict=True)]
        for row in rows
    ]
    return table_lines(fitting, headings, right=right)


def _cell(name: str, value: Any) -> str:
    return str(value) if isinstance(value, str) or name == "seed" else formatted(name, value)


def draw_curves(rows: Sequence[Mapping[str, Any]], picture: Path) -> str:
    """Draw the curves of all runs that have any, beside their folders; return a line to print about it."""
    # Only now: matplotlib takes a second to load.
    from reports.plot import PlotOptions, compare  # noqa: PLC0415

    folders = [picture.parent / row[FOLDER] for row in rows if row["return_mean"] is not None]
    if not folders:
        return "there are no curves to draw yet"
    try:
        compare([read_history(folder) for folder in folders], PlotOptions(output=str(picture)))
    except UsageError as error:
        return f"the curves could not be drawn: {error}"
    return f"the curves are in {picture}"
