"""This platform beside others at equal wall-clock time on the same machine: steps per second and returns on Atari.

    python -m tests.benchmarks.peers [--games Qbert Phoenix] [--minutes=20] [--seeds 1 2] [--option=value ...]

The others are Sample Factory's APPO, RLlib's IMPALA and a PPO over EnvPool, as their documents run Atari; what is
set otherwise for a few cores is at the top of each program in tests/benchmarks/peer_programs. Each gets a virtual
environment of its own. Options of main.py, such as --batch_size=16, are those of our own runs.

The arms take turns: for each seed and each game, all arms one after another, each with all cores. The time of an arm
begins with its process, so it includes the start. It ends like CTRL+C, and then all of its processes are killed.

All arms play by the same rules: no sticky actions; up to 30 no-op frames at the start of a game, and FIRE where a game
waits for it; 4 frames an action, the maximum of the last two; 84×84 pixels of gray, four of them stacked; in training
a lost life ends an episode, and rewards are clipped to their sign. An agent step is one action. Returns are means of
the last 100 whole games of training, with all lives and unclipped.

Each finished run is a line of `runs.jsonl` in --results. After CTRL+C, the same command goes on with the runs that
are missing. --tables_only prints the tables of what is there.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.rules import UsageError
from reports.scores import ATARI_5, PUBLISHED
from run_files.metrics import JsonLinesSink, Report
from tests.benchmarks.peer_environments import PEERS, Peer, PeerError, make_environment
from tests.benchmarks.peer_runs import Command, Line, own_reports, peer_reports, run_for, speed
from tests.benchmarks.peer_table import OWN, result_lines
from tests.benchmarks.runs import ROOT
from tests.read_metrics import read_metrics

TITLES = {OWN: "this platform", **{peer.name: peer.title for peer in PEERS}}
GAMES = tuple(sorted(ATARI_5, key=ATARI_5.__getitem__, reverse=True)[:3])  # with the largest weights of Atari-5
RUNS = "runs.jsonl"
LOG = "output.txt"
SET_HERE = ("env", "op_mode", "results_dir", "seed")


class Run(NamedTuple):
    """One arm on one game with one seed. `flags` are those of our own arm."""

    arm: str
    game: str
    seed: int
    minutes: float
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.arm}_{self.game}_seed{self.seed}"


def plan(
    peers: Sequence[str], games: Sequence[str], seeds: Sequence[int], minutes: float, flags: Sequence[str]
) -> list[Run]:
    """All runs in their order: the arms take turns."""
    arms = (OWN, *peers)
    return [
        Run(arm, game, seed, minutes, tuple(flags) if arm == OWN else ())
        for seed in seeds
        for game in games
        for arm in arms
    ]


def finished(path: Path) -> dict[Run, Report]:
    """The runs that have a line in the file."""
    return {run_of(row): row for row in read_metrics(path)} if path.exists() else {}


def run_of(row: Report) -> Run:
    flags = row["flags"]
    assert isinstance(flags, list)
    minutes, seed = float(str(row["minutes"])), int(str(row["seed"]))
    return Run(str(row["arm"]), str(row["game"]), seed, minutes, tuple(map(str, flags)))


def row_of(run: Run, lines: Sequence[Line]) -> Report:
    return {**run._asdict(), "flags": list(run.flags), **lines[-1]._asdict(), "steps_per_second": speed(lines)}


def own_command(run: Run, folder: Path) -> Command:
    given = given_flags(run.flags, OPTIONS)
    # Nobody looks at a display or at curves during the benchmark; drawing them takes time of a core.
    words = {"console": "off", "curves": False, **given}
    words |= {"op_mode": "train", "env": f"{run.game}NoFrameskip-v4", "seed": run.seed, "results_dir": folder}
    flags = [f"--{name}={value}" for name, value in words.items()]
    return Command([sys.executable, "main.py", *flags], {}, own_reports(folder))


def peer_command(run: Run, peer: Peer, python: Path, folder: Path, scratch: Path) -> Command:
    words = {"game": run.game, "seed": run.seed, "seconds": 60 * run.minutes, "folder": folder, "scratch": scratch}
    flags = [f"--{name}={value}" for name, value in words.items()]
    # PYTHONPATH: processes of Ray import the program's modules from elsewhere.
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "RAY_TMPDIR": str(scratch)}
    return Command([str(python), "-m", peer.program, *flags], environment, peer_reports(folder))


def measure(run: Run, results: Path, pythons: Mapping[str, Path]) -> Report:
    folder = results / run.name
    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted run
    folder.mkdir(parents=True)
    # Short, because sockets in it have names of at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="peer_", ignore_cleanup_errors=True) as scratch:
        if run.arm == OWN:
            command = own_command(run, folder)
        else:
            peer = next(peer for peer in PEERS if peer.name == run.arm)
            command = peer_command(run, peer, pythons[run.arm], folder, Path(scratch))
        return row_of(run, run_for(command, 60 * run.minutes, folder / LOG))


def run_missing(runs: Sequence[Run], results: Path, environments: Path) -> int:
    """Run what has no line yet, and return how many of them failed."""
    path = results / RUNS
    done = finished(path)
    missing = [run for run in runs if run not in done]
    chosen = {run.arm for run in missing}
    pythons = {peer.name: make_environment(peer, environments) for peer in PEERS if peer.name in chosen}
    sink = JsonLinesSink(path)
    failed = 0
    try:
        for index, run in enumerate(missing):
            print(f"{index + 1} of {len(missing)}: {TITLES[run.arm]}, {run.game}, seed {run.seed}", flush=True)
            try:
                row = measure(run, results, pythons)
            except PeerError as error:
                failed += 1
                print(f"  failed: {error}; see {results / run.name / LOG}", flush=True)
                continue
            sink.write(row)
            described = (f"{name} {row[name]}" for name in ("agent_steps", "steps_per_second", "return_mean", "games"))
            print(f"  {', '.join(described)}", flush=True)
    finally:
        sink.close()
    return failed


def print_tables(runs: Sequence[Run], path: Path, *, markdown: bool) -> None:
    done = finished(path)
    rows = [done[run] for run in runs if run in done]
    if rows:
        print("\n".join(result_lines(rows, TITLES, markdown=markdown)))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    names = [peer.name for peer in PEERS]
    parser.add_argument("--games", nargs="+", default=list(GAMES), metavar="GAME", help=f"default: {' '.join(GAMES)}")
    parser.add_argument("--peers", nargs="+", choices=names, default=names)
    parser.add_argument("--minutes", type=float, default=20.0, help="wall-clock time of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="each seed is a round of all arms")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "peers", metavar="FOLDER")
    parser.add_argument("--environments", type=Path, metavar="FOLDER", help="default: environments, in --results")
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    parser.add_argument("--tables_only", action="store_true", help="run nothing")
    return parser


def checked_flags(words: Sequence[str]) -> list[str]:
    """The options of our own runs, in one spelling."""
    given = given_flags(words, OPTIONS)
    for name in SET_HERE:
        if name in given:
            raise UsageError(f"--{name} is set by this benchmark; leave it out (see --games, --seeds and --results).")
    Config.from_flags(given)
    return sorted(f"--{name}={value}" for name, value in given.items())


def check(given: argparse.Namespace) -> None:
    unknown = [game for game in given.games if game not in PUBLISHED]
    if unknown:
        raise UsageError(f"--games must name games with published scores, such as Qbert, not {unknown[0]!r}.")
    if not given.minutes > 0:
        raise UsageError(f"--minutes must be above 0, not {given.minutes:g}.")


def main(arguments: Sequence[str]) -> int:
    given, words = make_parser().parse_known_args(arguments)
    try:
        check(given)
        runs = plan(given.peers, given.games, given.seeds, given.minutes, checked_flags(words))
    except UsageError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    results = given.results.resolve()
    environments = (given.environments or results / "environments").resolve()
    failed = 0
    try:
        if not given.tables_only:
            results.mkdir(parents=True, exist_ok=True)
            failed = run_missing(runs, results, environments)
    except PeerError as error:
        print(f"peers: {error}", file=sys.stderr)
        failed = 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with the runs that are missing", flush=True)
        return 130
    finally:
        print_tables(runs, results / RUNS, markdown=given.markdown)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
