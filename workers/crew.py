"""The worker processes that the flags ask for, and what they all share."""

from collections.abc import Callable

from option_flags import Config
from replay.trajectory import UnrollSpec
from workers.inference_memory import InferenceMemory
from workers.inference_server import InferenceServer
from workers.pool import WorkerPool
from workers.preparation import Machine
from workers.resume import Resume
from workers.shared_weights import SharedWeights
from workers.slots import Slots
from workers.worker import MakeEnvironment, Worker
from workers.worker_clock import WorkerTimes


def make_pool(
    config: Config,
    make_environment: MakeEnvironment,
    seed: int,
    spec: UnrollSpec,
    machine: Machine,
    slots: Slots,
    weights: SharedWeights,
    times: WorkerTimes,
    resume: Resume,
    announce: Callable[[str], None],
) -> WorkerPool:
    """Start the workers, with an inference server before them where they are not to choose actions themselves."""
    lockstep, dtype = config.run.reproducible, machine.worker_precision
    memory, server = None, None
    if config.workers.inference == "learner":
        memory = InferenceMemory(spec, machine.worker_count, config.workers.envs_per_worker)
        server = InferenceServer(config.network, machine.precision, machine.device, memory, weights, times, lockstep)

    def make_worker(index: int, incarnation: int) -> Worker:
        life = (resume.count, incarnation)
        return Worker(config, make_environment, seed, index, life, spec, dtype, slots, weights, times, memory)

    return WorkerPool(
        make_worker,
        slots,
        announce,
        lockstep=lockstep,
        silence_limit=config.workers.worker_timeout,
        restart_budget=config.workers.worker_restart_budget,
        server=server,
    )
