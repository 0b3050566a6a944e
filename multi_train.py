"""A sweep, many runs of main.py: `python multi_train.py --jobs=2`; `--sweep=my.json` replaces the `SWEEP` below.

There is one run for each of `runs` (an object by name, or a list), each point of `grid` (lists of values by flag) and
each of `seeds`. All runs share `flags`. With `search` in place of `runs` and `grid`, Optuna chooses the flags of each
run. Flags of main.py on the command line take precedence over the sweep. The same command continues a sweep that was
interrupted.
"""

from machine.start import exit_on_signals

if __name__ == "__main__":
    exit_on_signals()

import importlib.util
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from cluster.check import check_cluster
from machine.program import CHECKOUT, command_of, explained, run_program
from machine.stop_signals import StopSignals
from option_flags import OPTIONS, TOPICS, ClusterOptions
from options.command_line import FlagFile, given_flags
from options.process_options import SweepOptions
from options.rules import UsageError, declared
from reports.console import make_console
from sweeps.files import LOCK, DamagedFiles, try_lock
from sweeps.places import Places, ThisMachine, cpus_of_a_run
from sweeps.plan import Sweep, plan_sweep, read_sweep
from sweeps.run_source import ListedRuns, RunSource
from sweeps.runner import POLL_SECONDS, SweepRunner
from sweeps.search_plan import SearchPlan, is_search, plan_search
from sweeps.search_result import MOST_CURVES, best_first, search_result
from sweeps.state import SweepState
from sweeps.summary import SweepTable, draw_curves, summary_table

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

USAGE = "usage: python multi_train.py [--jobs=n] [--cluster=auto] [--sweep=path] [--sweep_dir=path] [--name=value ...]"
PROGRAM = CHECKOUT / "main.py"


def main(arguments: Sequence[str], program: Path = PROGRAM, poll_seconds: float = POLL_SECONDS) -> int:
    """Flags → all configurations → runs → a table and a picture; returns the exit code.

    `program` is started for each run. Tests give another one, and a shorter poll interval.
    """
    # Each run is one on its own machine: the options of a run on a cluster have no meaning here.
    topics = [topic for topic in TOPICS.values() if topic is not ClusterOptions]
    topics = [SweepOptions, *topics, FlagFile]
    return explained(lambda: sweep(arguments, program, poll_seconds), USAGE, topics, "multi_train.py")


def sweep(arguments: Sequence[str], program: Path, poll_seconds: float) -> int:
    given = given_flags(arguments, {**declared(SweepOptions), **OPTIONS})
    own = SweepOptions(**{name: given.pop(name) for name in declared(SweepOptions) if name in given})
    definition = SWEEP if own.sweep is None else read_sweep(own.sweep)
    plan = plan_search(definition, given) if is_search(definition) else plan_sweep(definition, given)
    folder = Path(own.sweep_dir or f"results/sweep_{plan.name}").resolve()
    print_line = make_console("plain", 0.0, sys.stdout).message  # no error if the output is closed
    places = make_places(own, plan, program, print_line)
    damaged = DamagedFiles(print_line)
    lock, state, source = open_folder(folder, plan, damaged)
    with lock, StopSignals() as stop:
        print_line(f"{source.total} runs, {places.words} at once, in {folder}")
        table = SweepTable(source, folder, state, damaged, best_first if isinstance(plan, SearchPlan) else list)

        def write_table() -> None:
            table.write(table.rows())

        SweepRunner(source, folder, state, places, stop, print_line, write_table, poll_seconds).run()
        places.close()
        show_results(plan, source, state, table, print_line, draw=not stop.requested)
        unfinished = len(source.runs) < source.total or not state.have_ended(run.name for run in source.runs)
        if unfinished:
            print_line(f"resume with: {shlex.join([*command_of('multi_train.py'), *arguments])}")
        return 1 if unfinished and not stop.requested else 0


def show_results(
    plan: Sweep | SearchPlan,
    source: RunSource,
    state: SweepState,
    table: SweepTable,
    print_line: Callable[[str], None],
    draw: bool,
) -> None:
    """Show the table, write it, and draw the curves."""
    rows = table.rows()
    print_line("\n".join(["", *summary_table(rows), "", table.write(rows)]))
    if draw:
        drawn = rows[:MOST_CURVES] if isinstance(plan, SearchPlan) else rows
        print_line(draw_curves(drawn, table.folder / "curves.png"))
    if isinstance(plan, SearchPlan):
        print_line("\n".join(search_result(rows, source, state.runs)))


def open_folder(
    folder: Path, plan: Sweep | SearchPlan, damaged: DamagedFiles
) -> tuple[BinaryIO, SweepState, RunSource]:
    """Create the sweep's folder, lock it against a second multi_train.py, and read the state of its runs."""
    if isinstance(plan, SearchPlan):
        check_optuna()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(folder / LOCK)
        if lock is None:
            raise UsageError(f"--sweep_dir={folder} is in use by another multi_train.py; wait for it, or stop it.")
        with ExitStack() as close_on_error:
            close_on_error.enter_context(lock)
            state = SweepState(folder)
            source = make_source(plan, folder, state, damaged)
            state.write()
            close_on_error.pop_all()
        return lock, state, source
    except OSError as error:
        raise UsageError(
            f"--sweep_dir={folder} cannot be written ({error.strerror}); a folder that you can write to would be right."
        ) from None


def make_source(plan: Sweep | SearchPlan, folder: Path, state: SweepState, damaged: DamagedFiles) -> RunSource:
    """Where the runs come from: the list of a sweep, or Optuna, which is loaded only for a search."""
    if isinstance(plan, Sweep):
        return ListedRuns(plan, state)
    from sweeps.search import Search

    return Search(plan, folder, state, damaged)


def make_places(
    own: SweepOptions, plan: Sweep | SearchPlan, program: Path, print_line: Callable[[str], None]
) -> Places:
    """Where runs are started. Ray is loaded only for a cluster."""
    if own.cluster is None:
        return ThisMachine(own.jobs or 1, program)
    used = cpus_of_a_run(plan)
    address = check_cluster(own.cluster)
    from sweeps.on_cluster.cluster_places import ClusterPlaces

    return ClusterPlaces(address, program, own.job_cpus or used, own.job_gpus, own.jobs, print_line)


def check_optuna() -> None:
    if importlib.util.find_spec("optuna") is None:
        raise UsageError('a sweep with "search" needs the package optuna; run pip install optuna.')


if __name__ == "__main__":
    run_program(main)
