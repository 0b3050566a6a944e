"""The acting side of a run, as the training loop uses it: it delivers unrolls and accepts new weights."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agents.acting import weight_count
from agents.network import ActorCritic
from machine.capacity import allow_processes
from processes.child import Child, start_child
from processes.fork_server import start_forked
from processes.pool import ChildPool
from replay.row_layout import Rows
from run_files.metrics import JsonValue
from workers.flow_control import FlowControl, Lockstep, PlayOnDemand
from workers.inference_server import InferenceServer
from workers.policy_inputs import InferenceRows
from workers.realtime.session import RealtimeWorker
from workers.shared_array import SharedArray, make_times
from workers.shared_weights import SharedWeights, WeightPublisher, make_publisher
from workers.worker import PlaySetup, SharedMemory, Worker
from workers.worker_pool import WorkerPool


class Actors:
    """The worker pool, and the publisher that gives the learner's weights to the workers."""

    def __init__(self, pool: WorkerPool, publisher: WeightPublisher, times: SharedArray) -> None:
        self.pool = pool  # the workers of this machine
        self.times = times  # of `make_times`
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

    def node_figures(self) -> Sequence[dict[str, JsonValue]]:
        """Figures of each other machine of a cluster."""
        return []

    def close(self) -> None:
        """End all worker processes; they hold nothing that could be lost."""
        self.pool.close()


def make_actors(
    setup: PlaySetup,
    network: ActorCritic,
    version: int,
    announce: Callable[[str], None],
    snapshot: dict[str, Any] | None = None,
) -> Actors:
    """Make the shared memory, publish the network's weights as `version`, and start the workers.

    `snapshot` is that of a pool from which the workers continue.
    """
    weights = SharedWeights(weight_count(network))
    publisher = make_publisher(network, weights, at_once=setup.config.run.reproducible)
    publisher.post(version)
    publisher.deliver(wait=True)
    times = make_times(setup.machine.worker_count + 1)  # the last row is for an inference server
    return Actors(make_pool(setup, weights, times, announce, snapshot=snapshot), publisher, times)


def make_pool(
    setup: PlaySetup,
    weights: SharedWeights,
    times: SharedArray,
    announce: Callable[[str], None],
    flow_control: FlowControl | None = None,
    snapshot: dict[str, Any] | None = None,
) -> WorkerPool:
    """Start the workers, and with --inference=learner the inference server before them.

    `flow_control` is that of the caller, if it asks for rounds by itself.
    """
    config, layout, machine = setup.config, setup.layout, setup.machine
    options, lockstep = config.workers, config.run.reproducible
    workers, slots_each = machine.worker_count, machine.slots_per_worker
    slots = SharedArray((workers, slots_each, options.envs_per_worker, layout.nbytes))
    rows, make_server = None, None
    if options.inference == "learner":
        rows = InferenceRows(layout, workers, options.envs_per_worker)
        make_server = partial(
            InferenceServer, config.network, machine.precision, machine.device, rows, weights, times, lockstep
        )
    if flow_control is None:
        flow_control = Lockstep(workers) if lockstep else PlayOnDemand(workers * slots_each)
    kind = RealtimeWorker if config.environment.in_real_time else Worker
    memory = SharedMemory(slots, weights, times, rows)

    def start(work: Any, name: str) -> Child:
        # An inference server may use a GPU, and holds more open files than a fork server hands on.
        return (start_child if isinstance(work, InferenceServer) else start_forked)(work, name, logs=setup.logs)

    allow_processes(workers + 1)
    children = ChildPool(announce, silence=options.worker_timeout, budget=options.worker_restart_budget, start=start)
    return WorkerPool(children, partial(kind, setup, memory), slots.array, flow_control, make_server, snapshot)
