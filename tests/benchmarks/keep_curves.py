"""Keeps the curves of runs in small form, for the documentation: one folder a run, which reports.plot can read.

    python -m tests.benchmarks.keep_curves results/<run> docs/data/<name> [--figures=return_mean,kl_fresh]

Of the configuration, what names a place on the machine is left out, and the steps after which the run was to end, lest
runs that differ in them are no seeds of one configuration any more, while the length of its schedule is written down;
of the metrics, all but some figures.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from run_files.run_history import read_history

ALWAYS = ("agent_steps", "frames", "seconds", "updates", "episodes")
FIGURES = "return_mean,steps_per_second,entropy,value_loss,kl_fresh,kl_replayed,policy_lag_mean"
PLACES = ("results_dir", "load_model_url")
ENDS = ("environment_max_steps",)  # which a reader sees
MACHINE = ("device", "precision", "worker_count", "learner_threads", "cores", "python", "torch")


def keep(run: Path, place: Path, figures: list[str]) -> None:
    """Write the run's config.json and metrics.jsonl, both reduced, to the folder `place`."""
    history = read_history(run)
    config: dict[str, Any] = json.loads((run / "config.json").read_text(encoding="utf-8"))
    options = {name: value for name, value in history.options.items() if name not in PLACES + ENDS}
    if not options["lr_scheduler_steps"]:
        options["lr_scheduler_steps"] = config["planned_updates"]
    machine = {name: value for name, value in config.get("machine", {}).items() if name in MACHINE}
    place.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"options": options, "machine": machine}, indent=1)
    (place / "config.json").write_text(text + "\n", encoding="utf-8")
    lines = []
    for numbers in history.reports:
        kept = {name: float(f"{numbers[name]:.5g}") for name in figures if name in numbers}
        lines.append(json.dumps({name: round(numbers[name]) for name in ALWAYS} | kept) + "\n")
    (place / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("place", type=Path)
    parser.add_argument("--figures", default=FIGURES, help="what to keep of each report besides its counters")
    arguments = parser.parse_args()
    keep(arguments.run, arguments.place, arguments.figures.split(","))


if __name__ == "__main__":
    main()
