"""The acting side of a run, as the training loop uses it: it delivers unrolls and accepts new weights."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from agents.acting import weight_count
from agents.network import ActorCritic
from machine.machine_setup import Machine
from machine.stop_signals import StopSignals
from option_flags import Config
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue
from workers.flow_control import FlowControl
from workers.inference.rows import InferenceRows
from workers.inference.server import InferenceServer
from workers.memory.shared_weights import SharedWeights
from workers.memory.slots import Slots
from workers.memory.weight_publisher import WeightPublisher, make_publisher
from workers.realtime.worker import RealtimeWorker
from workers.worker import Worker
from workers.worker_clock import WorkerTimes
from workers.worker_pool import WorkerPool
from wrappers.environment import MakeEnvironment


class Actors:
    """The worker pool, and the publisher that gives the learner's weights to the workers."""

    def __init__(self, pool: WorkerPool, publisher: WeightPublisher, times: WorkerTimes, lockstep: bool) -> None:
        self.pool = pool  # the workers of this machine
        self.times = times
        self.lockstep = lockstep  # workers play only while the learner waits, for exactly repeatable runs
        self.publisher = publisher

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for unrolls, if none are ready."""
        self.pool.wait(timeout)

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` unrolls `[nbytes]`, oldest first; each is valid until the next one is taken."""
        return self.pool.take(limit)

    def publish(self, version: int) -> None:
        """Publish the weights as they are now, after `version` updates."""
        self.publisher.post(version)

    def finish_publishing(self, wait: bool) -> None:
        """Publish weights whose copy from a GPU is complete; with `wait`, wait until it is."""
        self.publisher.deliver(wait)

    def node_figures(self) -> Sequence[dict[str, JsonValue]]:
        """Figures of each other machine of a cluster."""
        return []

    def answer_commands(self, run: str, stop: StopSignals, state_line: Callable[[], str]) -> None:
        """From now on, let commands from other machines stop or save the run, or ask for its state."""

    def close(self) -> None:
        """End all worker processes; they hold nothing that could be lost."""
        self.pool.close()


def make_actors(
    config: Config,
    make_environment: MakeEnvironment,
    network: ActorCritic,
    version: int,
    layout: UnrollLayout,
    machine: Machine,
    resume_count: int,
    announce: Callable[[str], None],
) -> Actors:
    """Make the shared memory, publish the network's weights as `version`, and start the workers."""
    lockstep = config.run.reproducible
    weights = SharedWeights(weight_count(network))
    publisher = make_publisher(network, weights, at_once=lockstep)
    publisher.post(version)
    publisher.deliver(wait=True)
    times = WorkerTimes(machine.worker_count + 1)  # the last row is for an inference server
    pool = make_pool(config, make_environment, layout, machine, weights, times, resume_count, announce)
    return Actors(pool, publisher, times, lockstep)


def make_pool(
    config: Config,
    make_environment: MakeEnvironment,
    layout: UnrollLayout,
    machine: Machine,
    weights: SharedWeights,
    times: WorkerTimes,
    resume_count: int,
    announce: Callable[[str], None],
    flow_control: FlowControl | None = None,
) -> WorkerPool:
    """Start the workers, and with --inference=learner the inference server before them.

    `config` must have a seed. `times` has a row for each worker and one for the inference server. `flow_control` is
    that of the caller, if it asks for rounds by itself.
    """
    workers = config.workers
    lockstep, dtype = config.run.reproducible, machine.worker_precision
    slots = Slots(machine.worker_count, machine.slots_per_worker, workers.envs_per_worker, layout.nbytes)
    rows, server = None, None
    if workers.inference == "learner":
        rows = InferenceRows(layout, machine.worker_count, workers.envs_per_worker)
        server = InferenceServer(config.network, machine.precision, machine.device, rows, weights, times, lockstep)

    kind: Callable[..., Worker] = Worker
    if config.environment.in_real_time:
        kind = partial(RealtimeWorker, inference_processes=machine.inference_processes)

    def make_worker(index: int, restart_index: int) -> Worker:
        return kind(
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
        flow_control=flow_control,
    )
