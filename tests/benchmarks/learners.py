"""What it costs to average gradients over learners, and whether two learners are faster than one with two threads.

    python -m tests.benchmarks.learners --rounds=5

All times are those of an update of the default network from 8 recorded unrolls of 20 steps, as medians of rounds in
which the cases take turns. On two cores, two learners use both cores, and so does one learner with two threads.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from importlib import import_module

import torch
import torch.distributed as dist

from agents.gradients import Peers
from agents.learner import Learner
from learners.group import LearnerGroup
from option_flags import Config
from options.presets import FRESH_ALONE
from replay.mix import Batch
from tests.benchmarks.stages import Bench
from tests.learners.groups import run_group

UPDATES = 30  # in one turn
WHOLE = "one learner, one thread"
THREADS = "one learner, two threads"
HALVES = "two learners, half a batch each"
APART = "the same, gradients not averaged"
GRADIENTS = "averaging alone"


def milliseconds(run: Callable[[], object], count: int = UPDATES) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begun) / count * 1000


def make_update(bench: Bench, batch: Batch, peers: Peers) -> Callable[[], object]:
    network = bench.learner().network
    options = bench.config
    learner = Learner(network, bench.layout, options.loss, options.optimizer, 10**6, bench.device)
    learner.join(peers)
    return lambda: learner.update(batch)


def measure(group: LearnerGroup, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each case, round by round, as the first learner measures them."""
    torch.set_flush_denormal(True)
    bench = Bench(Config.from_flags({"batch_size": 8, "r_f_steps": 20, "replay_parameters": FRESH_ALONE}))
    whole = bench.batch
    half = Batch(whole.rows[group.rank.index :: 2].clone(), whole.fresh[group.rank.index :: 2])
    alone = make_update(bench, whole, Peers())
    together, apart = make_update(bench, half, group), make_update(bench, half, Peers())
    gradients = torch.zeros(sum(p.numel() for p in bench.learner().network.parameters()))
    times: dict[str, list[float]] = {name: [] for name in (WHOLE, THREADS, HALVES, APART, GRADIENTS)}
    for _ in range(rounds + 1):  # the first one warms up
        for threads, name in ((1, WHOLE), (2, THREADS)):
            torch.set_num_threads(threads)
            if group.rank.is_first:
                times[name].append(milliseconds(alone))
            dist.barrier()  # the other learner sleeps meanwhile
        torch.set_num_threads(1)
        for run, name in ((together, HALVES), (apart, APART), (lambda: dist.all_reduce(gradients), GRADIENTS)):
            times[name].append(milliseconds(run))
            dist.barrier()
    return {name: found[1:] for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all cases")
    given = parser.parse_args()
    times = run_group(measure, given.rounds, timeout=3600)[0]
    for name, found in times.items():
        ratios = [mine / whole for mine, whole in zip(found, times[WHOLE], strict=True)]
        print(
            f"{name:34} {statistics.median(found):7.2f} ms ({min(found):.2f} to {max(found):.2f}), "
            f"{statistics.median(ratios):.2f} of the first row"
        )


if __name__ == "__main__":
    import_module("tests.benchmarks.learners").main()  # by this name, the learners find `measure`
