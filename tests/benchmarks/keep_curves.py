"""Add the curves of a run to an archive in docs/data, from which `python -m reports.plot` draws a picture.

    python -m tests.benchmarks.keep_curves results/<run> docs/data/<picture>.jsonl.gz --name=<name>

An archive holds only what pictures and tables use. Of the reports it keeps the counters and some figures
(`--figures`). Of the options it leaves out paths and `environment_max_steps`, so that runs that differ only in these
count as seeds of one configuration; the length of the learning-rate schedule is kept instead. A run of the same name
is replaced.
"""

import argparse
import gzip
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from options.rules import UsageError
from run_files.metrics import Report
from run_files.run_folder import write_atomically
from run_files.run_reader import read_histories, read_history

COUNTERS = ("agent_steps", "frames", "seconds", "updates", "episodes")
FIGURES = "return_mean,steps_per_second,entropy,value_loss,kl_fresh,kl_replayed,policy_lag_mean"
LEFT_OUT = ("results_dir", "load_model_url", "environment_max_steps")
MACHINE = ("device", "precision", "worker_count", "learner_threads", "cores", "python", "torch")


class ArchivedRun(NamedTuple):
    """The reports of one run, by flat names (`time_shares/update`), and what it ran with."""

    name: str
    options: Mapping[str, Any]
    machine: Mapping[str, Any]
    reports: Sequence[Mapping[str, float]]

    def as_line(self) -> str:
        """Columns compress better than rows. null means that a report does not have the figure."""
        names = dict.fromkeys(name for report in self.reports for name in report)
        columns = {name: [_short(report.get(name)) for report in self.reports] for name in names}
        line = {"name": self.name, "options": self.options, "machine": self.machine, "columns": columns}
        return json.dumps(line, separators=(",", ":"))


def _short(value: float | None) -> float | int | None:
    return int(value) if value is not None and value.is_integer() else value


def write_archive(path: Path, runs: Sequence[ArchivedRun], others: Sequence[str] = ()) -> None:
    """Write the lines of other runs, and then these runs; the same ones give the same bytes."""
    text = "".join(f"{line}\n" for line in [*others, *(run.as_line() for run in runs)])
    write_atomically(path, gzip.compress(text.encode(), mtime=0))


def reduced(run: Path, name: str, figures: list[str]) -> ArchivedRun:
    """The run with the runs that it was resumed from. The figures are rounded to five digits."""
    history = read_history(run)
    config: Report = json.loads((run / "config.json").read_text(encoding="utf-8"))
    options = {option: value for option, value in history.options.items() if option not in LEFT_OUT}
    if not options["lr_scheduler_steps"]:
        options["lr_scheduler_steps"] = config["planned_updates"]
    known = config.get("machine")
    machine = {key: value for key, value in known.items() if key in MACHINE} if isinstance(known, dict) else {}
    reports = [
        {counter: float(round(numbers[counter])) for counter in COUNTERS if counter in numbers}
        | {figure: float(f"{numbers[figure]:.5g}") for figure in figures if figure in numbers}
        for values in zip(*history.reports.values(), strict=True)
        for numbers in [
            {name: value for name, value in zip(history.reports, values, strict=True) if not math.isnan(value)}
        ]
    ]
    return ArchivedRun(name, options, machine, reports)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("archive", type=Path, help="a file that ends in .jsonl.gz")
    parser.add_argument("--name", help="the name of the run in the archive, that of its folder by default")
    parser.add_argument("--figures", default=FIGURES, help="what to keep of each report besides its counters")
    arguments = parser.parse_args()
    try:
        run = reduced(arguments.run, arguments.name or arguments.run.name, arguments.figures.split(","))
        others = []
        if arguments.archive.exists():
            read_histories(arguments.archive)  # refuses what is no archive
            lines = gzip.decompress(arguments.archive.read_bytes()).decode().splitlines()
            others = [line for line in lines if json.loads(line)["name"] != run.name]
        write_archive(arguments.archive, [run], others)
    except UsageError as error:
        print(f"keep_curves: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
