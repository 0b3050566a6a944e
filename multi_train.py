"""A sweep, many runs of main.py: `python multi_train.py --sweep=my.json`; alone, it prints its help."""

from machine.stop_signals import exit_on_signals

if __name__ == "__main__":
    exit_on_signals()

import fcntl
import importlib.util
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from cluster.check import check_cluster
from machine.program import CHECKOUT, command_of, explained, run_program
from machine.stop_signals import StopSignals
from option_flags import OPTIONS, TOPICS, ClusterOptions
from options.command_line import FlagFile, flags_by_place, show_help
from options.process_options import SweepOptions
from options.rules import UsageError, declared
from reports.console import make_console
from sweeps.job import Places
from sweeps.plan import Sweep, plan_sweep, read_sweep
from sweeps.runner import SweepRunner
from sweeps.state import ENDED, SweepState
from sweeps.table import draw_curves, summary_table, write_table

REPLAYS = CHECKOUT / "docs" / "sweeps" / "replays.json"
MOST_CURVES = 16  # runs of a search in its picture, the best ones
PROGRAM = CHECKOUT / "main.py"
USAGE = """\
usage: python multi_train.py [--sweep=path] [--jobs=n] [--cluster=auto] [--sweep_dir=path] [--name=value ...]

  python multi_train.py --sweep=my.json                          the runs of a file: see docs/sweeps.md
  python multi_train.py --sweep=docs/sweeps/replays.json         the four replays on Pong, in three to five hours
  python multi_train.py --sweep=my.json --jobs=2 --worker_count=1 --learner_threads=1
                                                                 two runs at a time
  python multi_train.py --sweep=my.json --flagfile=my.flags --gamma=0.99
                                                                 flags of main.py for all runs

The same command continues a sweep that was interrupted."""


def main(arguments: Sequence[str]) -> int:
    """Flags → all configurations → runs → a table and a picture; returns the exit code."""
    if not arguments:
        print(f"{USAGE} --help also lists the flags of main.py.\n")
        show_help(USAGE, [SweepOptions], SweepOptions.topic)
        return 0
    # Each run is one on its own machine: the options of a run on a cluster have no meaning here.
    topics = [topic for topic in TOPICS.values() if topic is not ClusterOptions]
    return explained(lambda: run_sweep(arguments), USAGE, [SweepOptions, *topics, FlagFile], "multi_train.py")


def run_sweep(arguments: Sequence[str]) -> int:
    in_file, given = flags_by_place(arguments, {**declared(SweepOptions), **OPTIONS})
    names = declared(SweepOptions).keys()
    own = SweepOptions(**{name: value for name, value in {**in_file, **given}.items() if name in names})
    of_runs = [{name: flags[name] for name in flags if name not in names} for flags in (given, in_file)]
    definition = read_sweep(REPLAYS if own.sweep is None else Path(own.sweep))
    plan = plan_search if isinstance(definition, dict) and "search" in definition else plan_sweep
    sweep = plan(definition, *of_runs)
    folder = Path(own.sweep_dir or f"results/sweep_{sweep.name}").resolve()
    print_line = make_console("plain", 0.0, sys.stdout).message  # no error if the output is closed
    cluster = None if own.cluster is None else connect(own, sweep, print_line)
    with open_folder(folder) as lock, StopSignals() as stop:
        state = SweepState(folder)
        sweep.open(state)
        state.write()
        places = cluster or Places(own.jobs or 1, PROGRAM, lock)
        print_line(f"{sweep.total} runs, {places.words} at once, in {folder}")
        SweepRunner(sweep, state, places, stop, print_line).run()
        places.close()
        rows, written = write_table(sweep, state)
        print_line("\n".join(["", *summary_table(rows), "", written]))
        if not stop.requested:
            print_line(draw_curves(rows[:MOST_CURVES] if plan is plan_search else rows, folder / "curves.png"))
        for line in sweep.result_lines(rows):
            print_line(line)
        ended = sum(state.runs[run.name]["status"] in ENDED for run in sweep.runs)
        unfinished = ended < sweep.total
        if unfinished:
            print_line(f"resume with: {shlex.join([*command_of('multi_train.py'), *arguments])}")
        return 1 if unfinished and not stop.requested else 0


def plan_search(definition: object, given: Mapping[str, Any], in_file: Mapping[str, Any]) -> Sweep:
    if importlib.util.find_spec("optuna") is None:
        raise UsageError('a sweep with "search" needs the package optuna; run pip install optuna.')
    from sweeps import search

    return search.plan_search(definition, given, in_file)


def connect(own: SweepOptions, sweep: Sweep, print_line: Callable[[str], None]) -> Places:
    cpus = sweep.cpus_of_a_run()
    check_cluster(str(own.cluster))
    from sweeps.cluster_places import ClusterPlaces

    needs = {"CPU": own.job_cpus or cpus, **({"GPU": own.job_gpus} if own.job_gpus else {})}
    return ClusterPlaces(str(own.cluster), PROGRAM, needs, own.jobs, print_line)


def open_folder(folder: Path) -> BinaryIO:
    """Create the sweep's folder, and lock it, for this process and each child that inherits the open file.

    The system releases the lock when the last of them ends, however it ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("ab")
    except OSError as error:
        raise UsageError(
            f"--sweep_dir={folder} cannot be written ({error.strerror}); a folder that you can write to would be right."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise UsageError(
            f"--sweep_dir={folder} is in use by another multi_train.py, or by runs of one that was killed, which save "
            "and end; wait for it, or stop it."
        ) from None
    except OSError:  # some network file systems have no locks
        pass
    return lock


if __name__ == "__main__":
    run_program(main)
