"""A sweep, many runs of main.py: `python multi_train.py --jobs=2`; `--sweep=my.json` reads another than the one below.

Each of `runs` (by name, or a plain list), with each point of `grid` (lists of values by flag), with each of `seeds`, is
a run; all share `flags`. Any flag of main.py on the command line beats the sweep. The same command goes on with a sweep
that was interrupted.
"""

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

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


def leave(number: int, frame: FrameType | None) -> None:
    """CTRL+C or SIGTERM while nothing is started."""
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)

from machine.stop_signals import StopSignals
from options.command_line import HelpRequested, given_flags, help_text
from options.program import end, open_closed_streams
from options.rules import UsageError, whole
from reports.console import make_console
from sweeps.files import try_lock
from sweeps.plan import Sweep, plan_sweep, read_sweep
from sweeps.runner import SweepRunner, SweepState
from sweeps.summary import draw_curves, summarise, table_lines, write_csv

PROGRAM = Path(__file__).resolve().with_name("main.py")
OWN_FLAGS = {
    "sweep": "JSON file with the sweep, in place of the one in multi_train.py.",
    "sweep_dir": "Folder of the sweep and its runs; results/sweep_<name> unless given.",
    "jobs": "Runs at once; 1 unless given. --worker_count and --learner_threads then say how many cores each takes.",
}


def main(arguments: Sequence[str], program: Path = PROGRAM) -> int:
    """Flags → all configurations → runs → a table and a picture; returns the exit code."""
    try:
        own, flags = split_flags(arguments)
        given = given_flags(flags, others=OWN_FLAGS)
        jobs: int = whole(1).checked("--jobs", int(own["jobs"]) if own["jobs"].isdecimal() else own["jobs"])
        sweep = plan_sweep(read_sweep(own["sweep"]) if own["sweep"] else SWEEP, given)
        folder = Path(own["sweep_dir"] or f"results/sweep_{sweep.name}").absolute()
        lock, state = open_folder(folder, sweep)
    except HelpRequested:
        print(usage())
        return 0
    except UsageError as error:
        print(f"multi_train.py: {error}", file=sys.stderr)
        return 2
    tell = make_console("plain", 0.0, sys.stdout).message  # it bears a reader that leaves
    with lock, StopSignals() as stop:
        tell(f"{len(sweep.runs)} runs, {jobs} at once, in {folder}")
        SweepRunner(sweep, folder, state, jobs, program, stop, tell).run()
        rows = summarise(sweep, folder, state.runs)
        tell("\n".join(["", *table_lines(rows), "", write_csv(rows, folder / "summary.csv")]))
        if not stop.requested:
            tell(draw_curves(rows, folder / "curves.png"))
        unfinished = [row["status"] for row in rows if row["status"] != "done"]
        if unfinished:
            tell(f"go on with: {shlex.join(['python', 'multi_train.py', *arguments])}")
        return 1 if unfinished and not stop.requested else 0


def split_flags(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of this program's own flags, and the words that are left for main.py's."""
    own = {"sweep": "", "sweep_dir": "", "jobs": "1"}
    given: set[str] = set()
    left: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        name = name.lstrip("-").replace("-", "_") if word.startswith("-") else ""
        if name not in own:
            left.append(word)
            continue
        if name in given:
            raise UsageError(f"--{name} is given twice; give it once.")
        given.add(name)
        own[name] = value if equals else next(words, "")
        if not own[name]:
            raise UsageError(f"--{name} needs a value: --{name}=...")
    return own, left


def open_folder(folder: Path, sweep: Sweep) -> tuple[BinaryIO, SweepState]:
    """The sweep's folder, locked against a second multi_train.py, and what is known of its runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(folder / "lock")
        if lock is None:
            raise UsageError(f"--sweep_dir={folder} is in use by another multi_train.py; wait for it, or stop it.")
        with ExitStack() as unless_refused:
            unless_refused.enter_context(lock)
            state = SweepState(folder, sweep)
            state.write()
            unless_refused.pop_all()
        return lock, state
    except OSError as error:
        raise UsageError(
            f"--sweep_dir={folder} cannot be written ({error.strerror}); a folder of your own would be right."
        ) from None


def usage() -> str:
    """This program's own flags, then all of main.py."""
    own = [line for name, sentence in OWN_FLAGS.items() for line in (f"  --{name}", f"      {sentence}")]
    first = "usage: python multi_train.py [--jobs=n] [--sweep=path] [--sweep_dir=path] [--name=value ...]"
    return "\n".join([first, "", "Sweep", *own, "", help_text()])


if __name__ == "__main__":
    open_closed_streams()
    end(main(sys.argv[1:]))
