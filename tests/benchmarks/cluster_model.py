"""A model of bandwidth and policy lag for clusters of 2 to 100 nodes, from a few measured numbers.

`python -m tests.benchmarks.cluster_model --step_rate=… --update_ms=…`. The numbers of one's own machines come from
`metrics.jsonl` of a run with --cluster.
"""

import argparse
from dataclasses import dataclass

HALF = 0.5  # of a network's time is left for unrolls, see cluster/node_link.py


@dataclass(frozen=True)
class Machines:
    """What one node and the learner do."""

    workers: int  # of each node
    environments: int  # of each worker
    unroll: int  # steps
    steps_per_worker: float  # a second
    unroll_bytes: float  # compressed
    weight_bytes: float
    batch: int  # unrolls
    update_seconds: float
    round_trip: float  # seconds
    bandwidth: float  # of the learner's network, bytes a second
    interval: float  # of the weights


@dataclass(frozen=True)
class Forecast:
    """A cluster at work."""

    steps_per_second: float
    limited_by: str
    received: float  # by the learner, bytes a second
    sent: float
    weights_every: float  # seconds
    lag: float  # updates


def forecast(machines: Machines, nodes: int) -> Forecast:
    """The speed is the lowest of what nodes play, what the learner learns from, and what the network carries."""
    step_bytes = machines.unroll_bytes / machines.unroll
    limits = {
        "nodes": nodes * machines.workers * machines.steps_per_worker,
        "learner": machines.batch * machines.unroll / machines.update_seconds,
    }
    round_steps = machines.unroll * machines.environments
    rounds_of_node = min(limits.values()) / nodes / round_steps  # a second
    sending = nodes * machines.weight_bytes / machines.bandwidth  # seconds, to all nodes
    # Weights come with requests for rounds, and leave a slow network half of its time for unrolls.
    weights_every = max(machines.interval, machines.round_trip + sending / HALF, 1 / rounds_of_node)
    sent = nodes * machines.weight_bytes / weights_every
    limits["network"] = (machines.bandwidth - sent) / step_bytes
    limited_by = min(limits, key=lambda name: limits[name])
    speed = limits[limited_by]
    updates_per_second = speed / (machines.batch * machines.unroll)
    # All steps of a round are played with the weights that its worker has when it starts: those of its own request, or
    # of an earlier one where requests are more frequent. Rounds wait for the learner for less than one round.
    age = weights_every / 2 if rounds_of_node * weights_every > 1 else 0.0
    travelling = machines.round_trip + machines.weight_bytes / machines.bandwidth
    playing = round_steps / machines.steps_per_worker  # seconds of a round
    uses = max(0.0, machines.environments / machines.batch - 1)  # updates from the first to the last unroll of a round
    lag = updates_per_second * (age + travelling + playing) + uses / 2
    return Forecast(speed, limited_by, speed * step_bytes, sent, weights_every, lag)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=8, help="of each node")
    parser.add_argument("--environments", type=int, default=32, help="of each worker")
    parser.add_argument("--unroll", type=int, default=20)
    parser.add_argument("--step_rate", type=float, default=2500.0, help="agent steps a second of a worker")
    parser.add_argument("--unroll_kib", type=float, default=6.0)
    parser.add_argument("--weight_mb", type=float, default=3.4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--update_ms", type=float, default=10.0)
    parser.add_argument("--round_trip_ms", type=float, default=1.0)
    parser.add_argument("--gbit", type=float, default=10.0)
    parser.add_argument("--interval", type=float, default=0.1)
    given = parser.parse_args()
    if min(given.step_rate, given.update_ms, given.gbit) <= 0:
        parser.error("--step_rate, --update_ms and --gbit must be above 0")
    machines = Machines(
        given.workers,
        given.environments,
        given.unroll,
        given.step_rate,
        given.unroll_kib * 1024,
        given.weight_mb * 1e6,
        given.batch_size,
        given.update_ms / 1000,
        given.round_trip_ms / 1000,
        given.gbit * 1e9 / 8,
        given.interval,
    )
    print(f"{'nodes':>5}{'steps/s':>11}{'limit':>9}{'MB/s in':>9}{'MB/s out':>10}{'weights every':>15}{'lag':>7}")
    for nodes in (2, 5, 10, 20, 50, 100):
        found = forecast(machines, nodes)
        print(
            f"{nodes:>5}{found.steps_per_second:>11,.0f}{found.limited_by:>9}{found.received / 1e6:>9.1f}"
            f"{found.sent / 1e6:>10.1f}{found.weights_every:>13.2f} s{found.lag:>7.1f}"
        )


if __name__ == "__main__":
    main()
