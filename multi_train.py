"""A sweep, many runs of main.py: `python multi_train.py --jobs=2`; `--sweep=my.json` replaces the `SWEEP` below.

There is one run for each of `runs` (an object by name, or a list), each point of `grid` (lists of values by flag) and
each of `seeds`. All runs share `flags`. Flags of main.py on the command line take precedence over the sweep. The same
command continues a sweep that was interrupted.
"""

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from machine.limits import explain_limits
from machine.program import exit_on_signals, run_program

if __name__ == "__main__":
    exit_on_signals()
    explain_limits()

from machine.stop_signals import StopSignals
from option_flags import OPTIONS, TOPICS
from options.command_line import FlagFile, HelpRequested, given_flags
from options.help_text import help_text
from options.rules import PATH, Options, UsageError, declared, option, whole
from reports.console import make_console
from sweeps.files import try_lock
from sweeps.plan import Sweep, plan_sweep, read_sweep
from sweeps.runner import POLL_SECONDS, SweepRunner
from sweeps.state import SweepState
from sweeps.summary import draw_curves, summarise, summary_table, write_csv

SWEEP: dict[str, Any] = {
    "name": "replays",
    "flags": {"env": "PongNoFrameskip-v4", "environment_max_steps": 2_000_000, "batch_size": 10},
    "runs": {
        "queue": {"replay_parameters": [{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]},
        "standard": {
            "replay_parameters": [
                {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
                {"type": "standard", "capacity": 1000, "sample_ratio": 0.5},
            ]
        },
        "attentive": {
            "replay_parameters": [
                {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
                {
                    **{"type": "attentive", "capacity": 1000, "sample_ratio": 0.5},
                    **{"dist_function": "ln_norm", "lambda_batch_multiplier": 6, "alfa_annealing_factor": 2.0},
                },
            ]
        },
        "elite": {
            "replay_parameters": [
                {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
                {
                    **{"type": "elite", "capacity": 1000, "sample_ratio": 0.5},
                    **{"dist_function": "ln_norm", "lambda_batch_multiplier": 6, "alfa_annealing_factor": 2.0},
                    "elite_sampling_strategy": "lowest_least_sampled",
                },
            ]
        },
    },
    "seeds": [1, 2],
}

USAGE = "usage: python multi_train.py [--jobs=n] [--sweep=path] [--sweep_dir=path] [--name=value ...]"
PROGRAM = Path(__file__).resolve().with_name("main.py")


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Options):
    topic = "Sweep"

    sweep: str | None = option(None, PATH, "JSON file with the sweep, instead of the one in multi_train.py.")
    sweep_dir: str | None = option(None, PATH, "Folder of the sweep and its runs. Unset: results/sweep_<name>.")
    jobs: int = option(
        1, whole(1), "Runs at a time. Set --worker_count and --learner_threads too: each run uses that many cores."
    )


def main(arguments: Sequence[str], program: Path = PROGRAM, poll_seconds: float = POLL_SECONDS) -> int:
    """Flags → all configurations → runs → a table and a picture; returns the exit code.

    `program` is started for each run. Tests give another one, and a shorter poll interval.
    """
    try:
        given = given_flags(arguments, {**declared(SweepOptions), **OPTIONS})
        own = SweepOptions(**{name: given.pop(name) for name in declared(SweepOptions) if name in given})
        sweep = plan_sweep(SWEEP if own.sweep is None else read_sweep(own.sweep), given)
        folder = Path(own.sweep_dir or f"results/sweep_{sweep.name}").absolute()
        lock, state = open_folder(folder, sweep)
    except HelpRequested:
        print(help_text(USAGE, (SweepOptions, *TOPICS.values(), FlagFile)))
        return 0
    except UsageError as error:
        print(f"multi_train.py: {error}", file=sys.stderr)
        return 2
    print_line = make_console("plain", 0.0, sys.stdout).message  # no error if the output is closed
    with lock, StopSignals() as stop:
        print_line(f"{len(sweep.runs)} runs, {own.jobs} at once, in {folder}")
        SweepRunner(sweep, folder, state, own.jobs, program, stop, print_line, poll_seconds).run()
        rows = summarise(sweep, folder, state.runs)
        print_line("\n".join(["", *summary_table(rows), "", write_csv(rows, folder / "summary.csv")]))
        if not stop.requested:
            print_line(draw_curves(rows, folder / "curves.png"))
        unfinished = any(row["status"] != "done" for row in rows)
        if unfinished:
            print_line(f"go on with: {shlex.join(['python', 'multi_train.py', *arguments])}")
        return 1 if unfinished and not stop.requested else 0


def open_folder(folder: Path, sweep: Sweep) -> tuple[BinaryIO, SweepState]:
    """Create the sweep's folder, lock it against a second multi_train.py, and read the state of its runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(folder / "lock")
        if lock is None:
            raise UsageError(f"--sweep_dir={folder} is in use by another multi_train.py; wait for it, or stop it.")
        with ExitStack() as close_on_error:
            close_on_error.enter_context(lock)
            state = SweepState(folder, sweep)
            state.write()
            close_on_error.pop_all()
        return lock, state
    except OSError as error:
        raise UsageError(
            f"--sweep_dir={folder} cannot be written ({error.strerror}); a folder that you can write to would be right."
        ) from None


if __name__ == "__main__":
    run_program(main)
