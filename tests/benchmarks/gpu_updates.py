"""How long an update takes on an NVIDIA GPU: its kernels launched one by one, and as a CUDA graph.

    python -m tests.benchmarks.gpu_updates [any flag of main.py]

Each row is a network and a batch of recorded unrolls of Pong; flags of a row go before those given. A time is the mean
of 60 updates (one by one) or 300 (as a graph) after twelve others, from the first launch until the GPU has computed all
of them.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from agents.gradients import Record, record_on_gpu
from agents.learner import Learner
from machine.device import learner_threads
from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.rules import UsageError
from tests.benchmarks.stages import Bench

CASES: tuple[Mapping[str, Any], ...] = (
    {},
    {"precision": "float32"},
    {"batch_size": 32},
    {"batch_size": 128},
    {"network": "nature_small"},
    {"network": "impala_deep"},
    {"network": "impala_deep", "batch_size": 32},
    {"network_width": 2},
    {"network_width": 4},
    {"network": "impala_deep", "network_width": 2},
    {"network": "impala_deep", "network_width": 4},
    {"use_lstm": True},
    {"loss": "impact"},
)
FIRST_UPDATES = 12  # not measured
ONE_BY_ONE, AS_A_GRAPH = 60, 300  # updates that are measured


def milliseconds(update: Callable[[], object], count: int) -> float:
    for _ in range(FIRST_UPDATES):
        update()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        update()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begun) / count


def measure(config: Config) -> tuple[float, float]:
    """Milliseconds of an update: launched one by one, and as a graph."""
    bench = Bench(config)
    torch.set_num_threads(learner_threads(bench.device))
    times = []
    ways: tuple[tuple[Record[Any] | None, int], ...] = ((None, ONE_BY_ONE), (record_on_gpu, AS_A_GRAPH))
    for record, count in ways:
        learner = Learner(bench.network(), bench.layout, config.loss, config.optimizer, 10**6, bench.device)
        if record is not None:
            learner.record(record, print)
        times.append(milliseconds(lambda learner=learner: learner.update(bench.batch), count))  # type: ignore[misc]
    return times[0], times[1]


def main(arguments: list[str]) -> int:
    try:
        given = {"device": "cuda", **given_flags(arguments, OPTIONS)}
        if not torch.cuda.is_available():
            raise UsageError("this benchmark needs an NVIDIA GPU, and torch finds none.")
        print(torch.cuda.get_device_name())
        print(f"{'':<40}{'one by one':>14}{'as a graph':>14}{'ratio':>8}{'steps/s':>10}")
        for case in CASES:
            config = Config.from_flags({**given, **case})
            one_by_one, graph = measure(config)
            steps = config.replay.batch_size * config.replay.r_f_steps
            words = " ".join(f"--{name}={value}" for name, value in case.items()) or "defaults"
            print(
                f"{words:<40}{one_by_one:>11.2f} ms{graph:>11.2f} ms{one_by_one / graph:>8.1f}"
                f"{1000 * steps / graph:>10,.0f}",
                flush=True,
            )
    except UsageError as error:
        print(f"gpu_updates: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
