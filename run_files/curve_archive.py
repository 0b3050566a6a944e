"""Curves of many runs in one compressed file. `docs/data` has such a file for the runs of each picture.

The file is gzip-compressed JSON lines, one line for each run: its name, its options, its machine, and one list of
numbers for each figure of its reports.
"""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from options.rules import UsageError
from run_files.run_folder import write_atomically
from run_files.run_history import Curve, History, Numbers
from run_files.run_reader import read_history

SUFFIX = ".jsonl.gz"


class ArchivedRun(NamedTuple):
    """The reports of one run, by flat names (`time_shares/update`), and what it ran with."""

    name: str
    options: Mapping[str, Any]
    machine: Mapping[str, Any]
    reports: Sequence[Numbers]


def read_histories(path: Path) -> list[History]:
    """All runs of an archive, or the one run of a run folder.

    Raises UsageError if `path` is neither.
    """
    if not path.name.endswith(SUFFIX):
        return [read_history(path)]
    no_games = Curve(np.empty(0), np.empty(0))
    return [History(path / run.name, run.options, run.reports, no_games) for run in read_archive(path)]


def read_archive(path: Path) -> list[ArchivedRun]:
    """The runs of an archive in their order. Raises UsageError if the file cannot be read."""
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        runs = [_from_line(json.loads(line)) for line in lines]
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}).") from None
    except (EOFError, zlib.error, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise UsageError(f"{path} is not an archive of curves, as tests.benchmarks.keep_curves makes it.") from None
    if not runs:
        raise UsageError(f"{path} holds no runs.")
    return runs


def write_archive(path: Path, runs: Sequence[ArchivedRun]) -> None:
    """Write the runs; the same runs give the same bytes."""
    text = "".join(json.dumps(_as_line(run), separators=(",", ":")) + "\n" for run in runs)
    write_atomically(path, gzip.compress(text.encode(), mtime=0))


def _as_line(run: ArchivedRun) -> dict[str, Any]:
    """Columns compress better than rows. null means that a report does not have the figure."""
    names = dict.fromkeys(name for report in run.reports for name in report)
    columns = {name: [_short(report.get(name)) for report in run.reports] for name in names}
    return {"name": run.name, "options": run.options, "machine": run.machine, "columns": columns}


def _from_line(line: Mapping[str, Any]) -> ArchivedRun:
    rows = zip(*line["columns"].values(), strict=True)
    reports = [
        {name: float(value) for name, value in zip(line["columns"], row, strict=True) if value is not None}
        for row in rows
    ]
    return ArchivedRun(line["name"], line["options"], line["machine"], reports)


def _short(value: float | None) -> float | int | None:
    return int(value) if value is not None and value.is_integer() else value
