"""Measure how many agent steps a second the learner takes in from nodes: recorded unrolls, mixing included.

`python -m tests.benchmarks.cluster_intake`. A process plays the gateway: it sends the same recorded rounds again
and again. No Ray, no games and no updates take part.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from cluster.intake import RoundIntake
from option_flags import Config
from options.presets import FRESH_ALONE
from processes.child import Child, start_child
from processes.messages import Kind, receive
from replay.mix import BatchMix
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from tests.benchmarks.recording import record_untrained
from tests.benchmarks.replaying_gateway import ReplayingGateway
from training.make_replays import make_replays
from wrappers.atari import make_atari

ENVIRONMENTS = 32
ROUNDS = 8  # recorded ones
IN_FLIGHT = 32  # rounds


def recorded_rounds(config: Config, layout: UnrollLayout) -> tuple[list[bytes], ...]:
    rows = record_untrained(config, layout, torch.float32, ENVIRONMENTS * ROUNDS)
    codec = UnrollCodec(layout, config.replay.lz4_compression_level)
    parts = np.split(rows, ROUNDS)
    return tuple([codec.encode(row) for row in part] for part in parts)


def measure(config: Config, layout: UnrollLayout, nodes: int, seconds: float) -> tuple[float, float]:
    """Agent steps a second that are taken in and mixed, and the bytes of one unroll on its way."""
    rounds = recorded_rounds(config, layout)
    intake = RoundIntake(layout, config, print, version=0)
    child = start_child(ReplayingGateway(rounds, nodes), "replaying gateway")
    mix = make_mix(config, layout)
    try:
        child.send(Kind.ROUNDS_WANTED, IN_FLIGHT)
        child.connection.poll(60.0)  # until it has started
        intake_for(1.0, child, intake, mix)  # burn-in
        begun = time.perf_counter()
        taken = intake_for(seconds, child, intake, mix)
        speed = taken * layout.unroll_length / (time.perf_counter() - begun)
    finally:
        child.end()
    assert not any(node["unrolls_refused"] for node in intake.nodes.figures())
    return speed, sum(len(unroll) for unrolls in rounds for unroll in unrolls) / len(rounds) / ENVIRONMENTS


def intake_for(seconds: float, child: Child, intake: RoundIntake, mix: BatchMix) -> int:
    """Take unrolls and mix batches for so many seconds; how many were taken."""
    taken, end = 0, time.perf_counter() + seconds
    wait: Callable[[float], bool] = child.connection.poll
    while time.perf_counter() < end:
        while wait(0.0 if intake.ready else 1.0):
            intake.deliver(*receive(child.connection).payload)
        for row in intake.take_from_round(mix.unrolls_accepted()) if intake.ready else ():
            mix.add(row)
            taken += 1
        child.send(Kind.ROUNDS_WANTED, intake.taken + IN_FLIGHT)
        if mix.ready():
            mix.mix(0)
    return taken


def make_mix(config: Config, layout: UnrollLayout) -> BatchMix:
    network = ActorCritic(config.network, layout, torch.float32)
    replays = make_replays(config.replay, layout, np.random.SeedSequence(0), network, planned_updates=10**9)
    return BatchMix(replays, layout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    flags = {"batch_size": 8, "r_f_steps": 20, "replay_parameters": FRESH_ALONE, "max_policy_lag": 0}
    config = Config.from_flags({"envs_per_worker": ENVIRONMENTS, **flags})
    layout = make_unroll_layout(config, make_atari)
    for _ in range(arguments.repeats):
        speed, size = measure(config, layout, arguments.nodes, arguments.seconds)
        print(
            f"{arguments.nodes} nodes: {speed:,.0f} agent steps/s taken in and mixed, "
            f"{size / 1024:.1f} KiB an unroll, {speed / layout.unroll_length * size / 1e6:.1f} MB/s"
        )


if __name__ == "__main__":
    main()
