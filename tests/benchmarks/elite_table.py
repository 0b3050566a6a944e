"""The table of docs/lab/replays.md: what the elite replay of each run of a sweep drew, and the returns.

`python -m tests.benchmarks.elite_table results/sweep_elite_control`. Figures of the draws, divergences and entropy are
means of the reports from 50,000 agent steps to `--last`; returns are those of the first report at or after each mark.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from run_files.metrics import read_metrics
from sweeps.files import run_folders

FIRST = 50_000
MARKS = (100_000, 200_000, 300_000, 500_000, 750_000, 1_000_000)


def row(name: str, reports: Sequence[dict[str, Any]], last: int) -> str:
    counted = [report for report in reports if FIRST <= report["agent_steps"] <= last]

    def mean_of(figure: str) -> float:
        return mean(float(report[figure]) for report in counted if report[figure] is not None)

    def elite(figure: str) -> float:
        replays = (report["replays"] for report in counted)
        values = (next(figures for key, figures in each.items() if key.endswith("elite"))[figure] for each in replays)
        return mean(float(value) for value in values if value is not None)

    at = [next((report["return_mean"] for report in reports if report["agent_steps"] >= mark), None) for mark in MARKS]
    cells = [name, f"{elite('age_mean'):.0f}", f"{elite('times_drawn_mean'):.1f}"]
    cells += [f"{mean_of('kl_replayed'):.3f}", f"{mean_of('kl_fresh'):.3f}", f"{mean_of('entropy'):.2f}"]
    return f"| {' | '.join(cells + ['' if value is None else f'{value:,.1f}' for value in at])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sweep", type=Path, help="the folder of a sweep")
    parser.add_argument("--last", type=int, default=500_000, help="agent steps")
    arguments = parser.parse_args()
    for folder in sorted(path for path in arguments.sweep.iterdir() if path.is_dir()):
        runs = run_folders(folder)
        reports: list[dict[str, Any]] = [dict(each) for each in read_metrics(runs[0] / "metrics.jsonl")] if runs else []
        if reports and reports[-1]["agent_steps"] >= arguments.last:
            print(row(folder.name, reports, arguments.last))


if __name__ == "__main__":
    main()
