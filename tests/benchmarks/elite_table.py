"""The table of docs/lab.md#replays: what the elite replay of each run of a sweep drew, and the returns.

`python -m tests.benchmarks.elite_table results/sweep_elite_control`. Figures of the draws, divergences and entropy are
means of the reports from 50,000 agent steps to `--last`; returns are those of the first report at or after each mark.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from options.rules import UsageError
from run_files.run_folder import run_of_job
from tests.read_metrics import read_metrics

FIRST = 50_000
MARKS = (100_000, 200_000, 300_000, 500_000, 750_000, 1_000_000)

Reports = Sequence[Mapping[str, Any]]


def rows(sweep: Path, last: int) -> list[str]:
    """A row for each run with an elite replay that has reached `last` agent steps."""
    if not sweep.is_dir():
        raise UsageError(f"{sweep} is not a folder; that of a sweep, such as results/sweep_elite_control, is right.")
    runs = {job.name: run_of_job(job) for job in sorted(sweep.iterdir()) if job.is_dir()}
    reports = {name: _reports(run) for name, run in runs.items() if run is not None}
    found = [
        row(name, own, last)
        for name, own in reports.items()
        if own and own[-1]["agent_steps"] >= last and _elite(own[-1]) is not None
    ]
    if not found:
        raise UsageError(f"{sweep} has no run with an elite replay and {last:,} agent steps; another sweep is right.")
    return found


def row(name: str, reports: Reports, last: int) -> str:
    counted = [report for report in reports if FIRST <= report["agent_steps"] <= last]
    elites = [_elite(report) or {} for report in counted]
    at = [next((report["return_mean"] for report in reports if report["agent_steps"] >= mark), None) for mark in MARKS]
    cells = [name, _mean(elites, "age_mean", 0), _mean(elites, "times_drawn_mean", 1)]
    cells += [_mean(counted, "kl_replayed", 3), _mean(counted, "kl_fresh", 3), _mean(counted, "entropy", 2)]
    return f"| {' | '.join(cells + ['' if value is None else f'{value:z,.1f}' for value in at])} |"


def _reports(run: Path) -> Reports:
    path = run / "metrics.jsonl"
    return read_metrics(path) if path.exists() else []


def _elite(report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The figures of the elite replay in a report."""
    return next((figures for name, figures in report["replays"].items() if name.endswith("elite")), None)


def _mean(reports: Reports, figure: str, decimals: int) -> str:
    known = [float(report[figure]) for report in reports if report.get(figure) is not None]
    return f"{mean(known):.{decimals}f}" if known else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sweep", type=Path, help="the folder of a sweep")
    parser.add_argument("--last", type=int, default=500_000, help="agent steps")
    arguments = parser.parse_args()
    try:
        print("\n".join(rows(arguments.sweep, arguments.last)))
    except UsageError as error:
        print(f"elite_table: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
