"""The acting side of a run, as the training loop uses it: it delivers unrolls and accepts new weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from agents.acting import weight_count
from agents.network import ActorCritic
from machine.capacity import allow_processes
from machine.machine_setup import Machine
from machine.stop_signals import StopSignals
from option_flags import Config
from processes.child import start_child
from processes.pool import ChildPool
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.metrics import JsonValue
from workers.flow_control import FlowControl, Lockstep, PlayOnDemand
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


@dataclass(frozen=True)
class PlaySetup:
    """What the workers of one machine play."""

    config: Config  # with a seed
    make_environment: MakeEnvironment
    layout: UnrollLayout
    machine: Machine
    resume_count: int = 0  # resumes of the run so far
    logs: Path | None = None  # the folder for what the processes print; None: it is quoted if one ends, and not kept


def make_actors(setup: PlaySetup, network: ActorCritic, version: int, announce: Callable[[str], None]) -> Actors:
    """Make the shared memory, publish the network's weights as `version`, and start the workers."""
    lockstep = setup.config.run.reproducible
    weights = SharedWeights(weight_count(network))
    publisher = make_publisher(network, weights, at_once=lockstep)
    publisher.post(version)
    publisher.deliver(wait=True)
    times = WorkerTimes(setup.machine.worker_count + 1)  # the last row is for an inference server
    return Actors(make_pool(setup, weights, times, announce), publisher, times, lockstep)


def make_pool(
    setup: PlaySetup,
    weights: SharedWeights,
    times: WorkerTimes,
    announce: Callable[[str], None],
    flow_control: FlowControl | None = None,
) -> WorkerPool:
    """Start the workers, and with --inference=learner the inference server before them.

    `times` has a row for each worker and one for the inference server. `flow_control` is that of the caller, if it asks
    for rounds by itself.
    """
    config, layout, machine = setup.config, setup.layout, setup.machine
    options, lockstep = config.workers, config.run.reproducible
    slots = Slots(machine.worker_count, machine.slots_per_worker, options.envs_per_worker, layout.nbytes)
    rows, server = None, None
    if options.inference == "learner":
        rows = InferenceRows(layout, machine.worker_count, options.envs_per_worker)
        server = InferenceServer(config.network, machine.precision, machine.device, rows, weights, times, lockstep)
    if flow_control is None:
        workers, slots_each, *_ = slots.rows.shape
        flow_control = Lockstep(workers) if lockstep else PlayOnDemand(workers * slots_each)
    kind: Callable[..., Worker] = Worker
    if config.environment.in_real_time:
        kind = partial(RealtimeWorker, inference_processes=machine.inference_processes)

    def make_worker(index: int, restart_index: int, pipe: Connection | None) -> Worker:
        return kind(
            config=config,
            make_environment=setup.make_environment,
            seed=config.seed,
            index=index,
            resume_count=setup.resume_count,
            restart_index=restart_index,
            layout=layout,
            compute_dtype=machine.worker_precision,
            slots=slots,
            weights=weights,
            times=times,
            inference=rows,
            server=pipe,
        )

    allow_processes(machine.worker_count + 1)
    children = ChildPool(
        announce,
        silence=options.worker_timeout,
        budget=options.worker_restart_budget,
        start=partial(start_child, logs=setup.logs),
    )
    return WorkerPool(children, make_worker, slots, flow_control, server)
