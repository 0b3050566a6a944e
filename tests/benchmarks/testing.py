"""Compare the speed of a test with that of the environment alone on as many cores.

    python -m tests.benchmarks.testing results/<run> [--games 1000] [--seconds 10]

Before and after the test, one process per core steps the environment with random actions: first one game in each
process, which stays in the caches of its core, then as many as a test plays at once. Speeds before and after are
averaged, so that a machine that becomes slower does not change the result. The factor is that speed divided by the
speed of the test, including the start and the end of its processes.
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evaluation.parallel_games import evaluation_options, slots_for
from machine.capacity import usable_cores
from machine.system_settings import use_one_thread
from option_flags import Config, EnvironmentOptions
from run_files.checkpoint import find_checkpoint
from tests.benchmarks.runs import ROOT
from wrappers.atari import make_atari


def play_at_random(options: EnvironmentOptions, seed: int, games: int, seconds: float) -> float:
    """Agent steps a second of one process."""
    use_one_thread()
    environments = [make_atari(options, seed * games + game) for game in range(games)]
    count = len(environments[0].get_wrapper_attr("action_meanings"))
    random = np.random.default_rng(seed)
    for environment in environments:
        environment.reset()
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for environment, action in zip(environments, random.integers(0, count, games).tolist(), strict=True):
            if any(environment.step(action)[2:4]):
                environment.reset()
        steps += games
    return steps / (time.perf_counter() - begun)


def environment_speeds(options: EnvironmentOptions, seconds: float) -> dict[int, float]:
    """Agent steps a second of all cores together, by games in each process."""
    cores = usable_cores()
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        return {
            games: sum(pool.starmap(play_at_random, [(options, core, games, seconds) for core in range(cores)], 1))
            for games in (1, slots_for(10**6))
        }


def speed_of_a_test(run: str, games: int) -> float:
    """Agent steps a second of a whole test."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkpoint.pt"  # results are written beside it
        copy.write_bytes(find_checkpoint(run).path.read_bytes())
        flags = ["--op_mode=test", f"--load_model_url={copy}", f"--test_episode_count={games}", "--seed=1"]
        subprocess.run([sys.executable, "main.py", *flags], cwd=ROOT, check=True)
        (path,) = Path(folder).glob("test_*.json")
        return float(json.loads(path.read_text())["agent_steps_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement of the environment")
    arguments = parser.parse_args()
    options = evaluation_options(Config.from_flags(find_checkpoint(arguments.run).played_options).environment)
    before = environment_speeds(options, arguments.seconds)
    test = speed_of_a_test(arguments.run, arguments.games)
    after = environment_speeds(options, arguments.seconds)
    for games in before:
        alone = statistics.mean((before[games], after[games]))
        print(
            f"{games} games a process: {before[games]:,.0f} and {after[games]:,.0f} agent steps/s; a factor of "
            f"{alone / test:.2f}"
        )


if __name__ == "__main__":
    main()
