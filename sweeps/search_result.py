"""What a search found: its trials from the best to the worst, and the command that trains with the best flags."""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from machine.program import command_of
from options.command_line import flag_words
from reports.number_format import score
from sweeps.run_source import RunSource
from sweeps.state import DONE, REFUSED

MOST_CURVES = 16  # trials in the picture of a search, the best ones


def best_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows sorted by their mean return; those without one come last."""
    return sorted(rows, key=lambda row: -math.inf if row["return_mean"] is None else row["return_mean"], reverse=True)


def search_result(
    rows: Sequence[Mapping[str, Any]], source: RunSource, states: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Lines about the best trial that reached its end, and about trials that were refused. `rows`: the best first."""
    lines = [
        f"{name} was not started: {state['last_lines'][0]}"
        for name, state in states.items()
        if state["status"] == REFUSED
    ]
    best = next((row for row in rows if row["status"] == DONE and row["return_mean"] is not None), None)
    if best is None:
        return [*lines, "no trial has reached its end with a mean return yet"]
    run = next(run for run in source.runs if run.name == best["name"])
    words = [*command_of("main.py"), "--op_mode=train", *flag_words(run.flags)]
    return [
        *lines,
        f"best of the trials that reached their end: {run.name} with a mean return of {score(best['return_mean'])}: "
        f"{source.differing_flags(run)}",
        f"train with its flags: {shlex.join(words)}",
    ]
