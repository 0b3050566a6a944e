"""Starts the worker processes that the options ask for."""

from collections.abc import Callable

from machine.machine_setup import Machine
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from workers.inference_rows import InferenceRows
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
    layout: UnrollLayout,
    machine: Machine,
    weights: SharedWeights,
    times: WorkerTimes,
    resume_count: int,
    announce: Callable[[str], None],
) -> WorkerPool:
    """Start the workers, and with --inference=learner the inference server before them.

    `config` has a seed. `times` has a row for each worker and one for the inference server.
    """
    workers = config.workers
    lockstep, dtype = config.run.reproducible, machine.worker_precision
    slots = Slots(machine.worker_count, machine.slots_per_worker, workers.envs_per_worker, layout.nbytes)
    rows, server = None, None
    if workers.inference == "learner":
        rows = InferenceRows(layout, machine.worker_count, workers.envs_per_worker)
        server = InferenceServer(config.network, machine.precision, machine.device, rows, weights, times, lockstep)

    def make_worker(index: int, restart_index: int) -> Worker:
        return Worker(
            config=config,
            make_environment=make_environment,
            seed=config.seed,
            index=index,
            resume_count=resume_count,
            restart_index=restart_index,
            layout=layout,
            compute_dtype=dtype,
            slots=slots,
            weights=weights,
            times=times,
            inference=rows,
        )

    return WorkerPool(
        make_worker,
        slots,
        announce,
        lockstep=lockstep,
        silence_limit=workers.worker_timeout,
        restart_budget=workers.worker_restart_budget,
        server=server,
    )
