"""The ceiling of the training speed, computed from the costs of the stages."""

from collections.abc import Sequence
from typing import NamedTuple


class StepCost(NamedTuple):
    """Seconds that one agent step takes, with all learning from it."""

    acting: float  # of a core, in the workers: environment and inference
    serial: float = 0.0  # of a core, in the learner's own thread
    parallel: float = 0.0  # of a core, in the learner, divided among its threads
    device: float = 0.0  # of the learner's GPU, while its own thread waits


class Speed(NamedTuple):
    """The highest speed that a number of cores can reach."""

    steps_per_second: float
    limited_by: str  # "cores" or "learner"
    busy_workers: float  # workers that this speed keeps busy all the time


def fastest(cost: StepCost, cores: float, learner_threads: float) -> Speed:
    """The speed at which either all cores or the learner are always busy.

    A learner that waits for its GPU leaves its core to the workers.
    """
    by_cores = cores / (cost.acting + cost.serial + cost.parallel)
    by_learner = learner_limit(cost, learner_threads)
    speed = min(by_cores, by_learner)
    return Speed(speed, "cores" if by_cores <= by_learner else "learner", speed * cost.acting)


def learner_limit(cost: StepCost, learner_threads: float) -> float:
    """Agent steps a second of a learner that never waits for unrolls."""
    alone = cost.serial + cost.parallel / learner_threads + cost.device
    return 1 / alone if alone > 0 else float("inf")


def serial_and_parallel(seconds_by_threads: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Serial and parallel seconds of a piece of work, from its times with two numbers of threads (Amdahl's law).

    Measured times are noisy: so no part is set below 0, and together they give the time with fewer threads.
    """
    (few, slow), (many, fast) = sorted(seconds_by_threads)
    if not 0 < few < many:
        raise ValueError(f"times with two numbers of threads expected, not with {few} and {many}")
    parallel = (slow - fast) / (1 / few - 1 / many)
    parallel = min(max(parallel, 0.0), few * slow)
    return slow - parallel / few, parallel
