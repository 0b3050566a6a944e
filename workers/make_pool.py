"""The worker processes that the flags ask for, and what they all share."""

from collections.abc import Callable

from machine.machine_setup import Machine
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from workers.inference_rows import InferenceMemory
from workers.inference_server import InferenceServer
from workers.shared_weights import SharedWeights
from workers.slots import Slots
from workers.worker import Worker
from workers.worker_clock import WorkerTimes
from workers.worker_pool import WorkerPool
from wrappers.environment_types import MakeEnvironment


def make_pool(
    config: Config,
    make_environment: MakeEnvironment,
    seed: int,
    layout: UnrollLayout,
    machine: Machine,
    slots: Slots,
    weights: SharedWeights,
    times: WorkerTimes,
    resume_count: int,
    announce: Callable[[str], None],
) -> WorkerPool:
    """Start the workers, with an inference server before them where they are not to choose actions themselves."""
    lockstep, dtype = config.run.reproducible, machine.worker_precision
    memory, server = None, None
    if config.workers.inference == "learner":
        memory = InferenceMemory(layout, machine.worker_count, config.workers.envs_per_worker)
        server = InferenceServer(config.network, machine.precision, machine.device, memory, weights, times, lockstep)

    def make_worker(index: int, incarnation: int) -> Worker:
        life = (resume_count, incarnation)
        return Worker(config, make_environment, seed, index, life, layout, dtype, slots, weights, times, memory)

    return WorkerPool(
        make_worker,
        slots,
        announce,
        lockstep=lockstep,
        silence_limit=config.workers.worker_timeout,
        restart_budget=config.workers.worker_restart_budget,
        server=server,
    )
