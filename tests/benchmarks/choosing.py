"""Measure the cost of ranking candidates, and how well a few states of an unroll are enough to rank it.

    python -m tests.benchmarks.choosing --run=results/<run>     agreement of rankings, on a run's own replay
    python -m tests.benchmarks.choosing --rounds=3              speed of training, against standard replay

The run must have been trained with `--save_replay` and an elite replay. Speeds are those of training runs of
`--steps` agent steps each, in turns, half queue and half replay, λ = 6 all the time.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from agents.network import ActorCritic
from agents.ranking import NetworkRanking
from agents.spaces import make_unroll_layout
from machine.device import choose_precision
from option_flags import Config
from options.replay_options import ReplaySpec
from replay.newest_states import NewestStates
from replay.replay_buffer import ReplayBuffer, ReplayRules
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import Checkpoint, find_checkpoint
from run_files.replay_file import read_tensor_file
from tests.read_metrics import read_metrics
from training.make_replays import make_storage
from wrappers.atari import make_atari

SHARE, CANDIDATES = 4, 24  # of a batch of 8, at λ = 6
SETS = 300
SOME_STATES = (1, 2, 4, 5, 10)
CHUNK = 50  # unrolls ranked at once
RUNS: dict[str, dict[str, str | float]] = {
    "standard": {"type": "standard"},
    "elite": {"type": "elite", "lambda_batch_multiplier": 6, "alfa_annealing_factor": 1e9},
    "attentive": {"type": "attentive", "lambda_batch_multiplier": 6, "alfa_annealing_factor": 1e9},
}


def saved_rows(checkpoint: Checkpoint, config: Config, layout: UnrollLayout) -> Rows:
    """All unrolls of the run's elite replay, oldest first."""
    entry = next(i for i, replay in enumerate(config.replay.replays) if replay.type == "elite")
    newest = max(checkpoint.path.parent.glob("replays_*.bin"))
    state = read_tensor_file(newest)["mix"]["replays"][entry]
    size = min(state["added"], config.replay.replays[entry].capacity)
    storage = make_storage(config.replay, config.replay.replays[entry].capacity, layout)
    replay = ReplayBuffer("elite", storage, ReplayRules(), size, size, np.random.default_rng(0))
    replay.load_state_dict(state)
    rows = np.zeros((size, layout.nbytes), dtype=np.uint8)
    replay.draw(rows, updates=0)
    rows = rows[np.argsort(layout.array(rows, "weight_version"), kind="stable")]
    ages = checkpoint.updates - layout.array(rows, "weight_version")
    print(
        f"{size} unrolls of {newest.name}, played {ages.min()} to {ages.max()} updates before the checkpoint's policy"
    )
    return rows


def distances(network: ActorCritic, layout: UnrollLayout, entry: ReplaySpec, rows: Rows) -> NDArray[np.float64]:
    ranking, newest = NetworkRanking(network, layout, entry), NewestStates(layout)
    for row in rows:
        newest.observe(row)
    chunks = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
    if entry.type == "elite":
        return np.concatenate([ranking.drift(chunk) for chunk in chunks])
    return np.concatenate([ranking.distance_to_newest(chunk, newest.states()) for chunk in chunks])


def rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Spearman's rank correlation, for numbers that are almost never equal."""
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def compare_rankings(url: str) -> None:
    checkpoint = find_checkpoint(url)
    config = Config.from_flags(checkpoint.options)
    layout = make_unroll_layout(config, make_atari)
    network = ActorCritic(config.network, layout, choose_precision(config.run.precision, torch.device("cpu")))
    network.load_state_dict(checkpoint.content["learner"]["network"])
    rows = saved_rows(checkpoint, config, layout)
    rng = np.random.default_rng(0)
    sets = [rng.choice(len(rows), min(CANDIDATES, len(rows)), replace=False) for _ in range(SETS)]
    print(f"ranking by some of the {layout.unroll_length} states, compared with ranking by all of them:")
    print(f"{'replay':10} {'distance':9} {'states':>6} {'all unrolls':>12} {'sets of 24':>11} {'same 4 of 24':>13}")
    for kind, name in product(("attentive", "elite"), ("ln_norm", "cos_dist", "kl_div")):
        by_all = distances(network, layout, entry_of(kind, name, layout.unroll_length), rows)
        for states in SOME_STATES:
            by_some = distances(network, layout, entry_of(kind, name, states), rows)
            whole = rank_correlation(by_all, by_some)
            within = statistics.fmean(rank_correlation(by_all[chosen], by_some[chosen]) for chosen in sets)
            same = statistics.fmean(share_of_same(by_all[chosen], by_some[chosen]) for chosen in sets)
            print(f"{kind:10} {name:9} {states:6} {whole:12.3f} {within:11.3f} {same:13.2f}")


def entry_of(kind: str, distance: str, states: int) -> ReplaySpec:
    return ReplaySpec(kind, len(RUNS), 1.0, dist_function=distance, ranked_states=states)


def share_of_same(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The fraction of the nearest four by `a` that are also among the nearest four by `b`."""
    return len(np.intersect1d(a.argsort()[:SHARE], b.argsort()[:SHARE])) / SHARE


def compare_speeds(rounds: int, steps: int, flags: Sequence[str]) -> None:
    speeds: dict[str, list[float]] = {name: [] for name in RUNS}
    for number in range(rounds):
        for name in RUNS:
            speeds[name].append(train(name, steps, flags))
            print(f"round {number + 1}, {name}: {speeds[name][-1]:,.0f} steps/s", flush=True)
    for name, measured in speeds.items():
        ratios = [own / standard for own, standard in zip(measured, speeds["standard"], strict=True)]
        print(f"{name:10} {statistics.median(measured):8,.0f} steps/s   {statistics.median(ratios):5.2f} of standard")


def train(name: str, steps: int, flags: Sequence[str]) -> float:
    """Agent steps a second of one run, after its replay is filled."""
    replays = [
        {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
        {**RUNS[name], "capacity": 1000, "sample_ratio": 0.5},
    ]
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "main.py", "--op_mode=train", f"--environment_max_steps={steps}", "--seed=1"]
        command += [f"--replay_parameters={json.dumps(replays)}", f"--results_dir={results}", "--console=off"]
        subprocess.run([*command, "--report_period=5000", *flags], check=True)
        reports = read_metrics(next(Path(results).glob("*/metrics.jsonl")))
    full = [report for report in reports if report["updates"]]
    first, last = full[0], full[-1]
    done, seconds = (float(str(last[key])) - float(str(first[key])) for key in ("agent_steps", "seconds"))
    return done / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="run folder or checkpoint, for the agreement of rankings")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of training runs, for their speeds")
    parser.add_argument("--steps", type=int, default=80_000, help="agent steps of each training run")
    options, flags = parser.parse_known_args()
    if options.run:
        compare_rankings(options.run)
    if options.rounds:
        compare_speeds(options.rounds, options.steps, flags)


if __name__ == "__main__":
    main()
