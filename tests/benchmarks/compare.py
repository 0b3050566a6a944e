"""Compare settings over games and seeds: which one learns more from the same number of steps?

    python -m tests.benchmarks.compare results/compare_norm \
        --setting=defaults --setting="norm: --network=nature_norm" --setting="old@5db2d8d: --lr=7e-4"

A setting is a name, then flags of main.py. `name@commit` runs the code of that commit. The first setting is the
control. Runs take turns: all settings with one seed in one game, then the next game, then the next seed. The same
command goes on after CTRL+C. `--table_only` prints the tables of what has been run so far.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_files.metrics import METRICS, last_report
from run_files.run_folder import run_folders, write_json
from run_files.run_reader import read_history
from sweeps.job import resumable
from tests.benchmarks.comparison_tables import Finished, comparison_lines

ROOT = Path(__file__).resolve().parents[2]
GAMES = ("Pong", "Breakout", "Boxing", "Seaquest", "NameThisGame", "Freeway")
SEEDS = (11, 12, 13)  # not those that the defaults were chosen with
STEPS = 400_000
RESULT, COST, LOG = "result.json", "cost.json", "log.txt"


@dataclass(frozen=True)
class Setting:
    name: str
    commit: str | None
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    setting: Setting
    game: str
    seed: int

    def folder(self, results: Path) -> Path:
        return results / self.setting.name / f"{self.game}_{self.seed}"


def main(words: Sequence[str]) -> int:
    options = parse(words)
    runs = list(planned(options.setting, options.games, options.seeds))
    results = Path(options.results)
    if not options.table_only:
        try:
            for number, run in enumerate(runs, 1):
                if not (run.folder(results) / RESULT).exists():
                    print(f"run {number} of {len(runs)}: {run.setting.name}, {run.game}, seed {run.seed}", flush=True)
                    play(run, results, options.steps, options.timeout)
        except KeyboardInterrupt:
            print("stopped; the same command goes on")
            return 130
    finished = [read_result(run, results) for run in runs if (run.folder(results) / RESULT).exists()]
    print("\n".join(comparison_lines(finished, [setting.name for setting in options.setting], len(runs))))
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("results", help="folder of all runs")
    parser.add_argument("--setting", action="append", type=setting, required=True, help="name[@commit][: flags]")
    parser.add_argument("--games", type=lambda text: text.split(","), default=GAMES)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds after which a run is given up")
    parser.add_argument("--table_only", action="store_true")
    return parser.parse_args(words)


def setting(text: str) -> Setting:
    head, _, flags = text.partition(":")
    name, _, commit = head.strip().partition("@")
    if not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} must begin with a name, such as 'norm: --network=nature_norm'")
    return Setting(name, commit or None, tuple(shlex.split(flags)))


def planned(settings: Sequence[Setting], games: Sequence[str], seeds: Sequence[int]) -> Iterator[Run]:
    """All settings of one game and seed before the next, so that an early table compares like with like."""
    for seed in seeds:
        for game in games:
            for each in settings:
                yield Run(each, game, seed)


def play(run: Run, results: Path, steps: int, timeout: float) -> None:
    """Play one run up to `steps`, or go on with it; its result is written when it is complete."""
    folder = run.folder(results)
    folder.mkdir(parents=True, exist_ok=True)
    parent = resumable(folder)
    mode = ["--op_mode=train"] if parent is None else ["--op_mode=train_w_load", f"--load_model_url={parent}"]
    # The learning rate falls as in a run of the default length, so the run is stopped from here.
    command = [
        *(sys.executable, "main.py", *mode, f"--results_dir={folder.resolve()}", f"--seed={run.seed}"),
        *("--console=plain", "--console_period=60", "--nocurves", f"--env={run.game}NoFrameskip-v4"),
        *run.setting.flags,
    ]
    before = json.loads((folder / COST).read_text()) if (folder / COST).exists() else {}
    started = time.monotonic()
    with (folder / LOG).open("ab") as log:
        code = ROOT if run.setting.commit is None else code_of(run.setting.commit, results)
        process = subprocess.Popen(command, cwd=code, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    end = wait(process, lambda: steps_of(folder) >= steps, timeout)
    cost = {
        "core_seconds": before.get("core_seconds", 0.0) + end.core_seconds,
        "seconds": before.get("seconds", 0.0) + time.monotonic() - started,
    }
    write_json(folder / COST, cost)
    if end.interrupted:
        raise KeyboardInterrupt
    if steps_of(folder) < steps:
        lines = (folder / LOG).read_text(errors="replace").splitlines()[-3:]
        raise SystemExit("\n".join([f"{folder} has not reached {steps:,} steps:", *lines]))
    write_json(folder / RESULT, {**cost, "returns": latest_returns(folder, steps)})


@dataclass(frozen=True)
class End:
    """How a process ended, and what it and all of its workers cost."""

    interrupted: bool
    core_seconds: float


def wait(process: subprocess.Popen[bytes], complete: Callable[[], bool], timeout: float) -> End:
    """Wait until the run is complete, and end it then, after `timeout` seconds, or with CTRL+C."""
    interrupted = stopped = False
    deadline = time.monotonic() + timeout
    while True:
        try:
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
            if found:
                process.returncode = os.waitstatus_to_exitcode(status)
                return End(interrupted, usage.ru_utime + usage.ru_stime)
            if not stopped and (complete() or time.monotonic() > deadline):
                stopped = True
                process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        except KeyboardInterrupt:  # from a terminal, the run got the signal, too; it saves and ends
            interrupted = True
            process.send_signal(signal.SIGINT)


def newest_run(folder: Path) -> Path | None:
    return next(iter(run_folders(folder)), None)


def steps_of(folder: Path) -> int:
    """The agent steps at the last report of the newest run."""
    newest = newest_run(folder)
    if newest is None or not (newest / METRICS).exists():
        return 0
    report = last_report(newest / METRICS)
    return 0 if report is None else int(str(report["agent_steps"]))


def latest_returns(folder: Path, steps: int) -> list[float]:
    """The returns of the latest games up to `steps`."""
    newest = newest_run(folder)
    assert newest is not None
    history = read_history(newest)
    before = history.games.y[history.games.x <= steps]
    returns: list[float] = before[-history.return_window :].tolist()
    return returns


def code_of(commit: str, results: Path) -> Path:
    """A copy of the tracked files of a commit."""
    folder = results / "code" / commit
    if not folder.exists():
        content = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        folder.mkdir(parents=True)
        subprocess.run(["tar", "--extract", f"--directory={folder}"], input=content, check=True)
    return folder.resolve()


def read_result(run: Run, results: Path) -> Finished:
    result = json.loads((run.folder(results) / RESULT).read_text(encoding="utf-8"))
    return Finished(run.setting.name, run.game, run.seed, tuple(result["returns"]), result["core_seconds"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
