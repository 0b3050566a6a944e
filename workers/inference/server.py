"""One process that chooses the actions of all workers on the learner's device (--inference=learner)."""

import multiprocessing
import selectors
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import torch

from agents.acting import Actor, ActorState
from agents.network import ActorCritic
from machine.device import padded_size, prepare_torch
from machine.system_settings import use_one_thread
from option_flags import NetworkOptions
from processes.inside import HEARTBEAT_SECONDS, Heartbeat
from processes.messages import Kind, receive, send
from workers.inference.rows import InferenceRows
from workers.memory.shared_weights import NewestWeights, SharedWeights
from workers.policy_inputs import as_batch
from workers.worker_clock import WorkerClock, WorkerTimes


class Request(NamedTuple):
    """A worker asks for the actions of one group of its environments."""

    pipe: Connection
    worker: int
    group: int


class BatchedPolicy:
    """The policy on its device: reads the rows of requests and writes the rows of results.

    `pad` gives the batch size that is computed for a number of rows on a device.
    """

    def __init__(
        self, actor: Actor, rows: InferenceRows, device: torch.device, pad: Callable[[int, torch.device], int]
    ) -> None:
        self._actor = actor
        self._rows = rows
        self._device = device
        self._pad = pad
        most = pad(rows.largest_batch, device)
        self._requests = torch.zeros(
            most, rows.request_layout.nbytes, dtype=torch.uint8, pin_memory=device.type == "cuda"
        )
        self._results = torch.zeros(most, rows.result_layout.nbytes, dtype=torch.uint8, device=device)

    @torch.inference_mode()
    def act(self, batch: Sequence[Request], weight_version: int) -> None:
        """Compute the results of all requests in one forward pass."""
        sources = [(request.worker, self._rows.groups[request.group]) for request in batch]
        ends = np.cumsum([rows.stop - rows.start for _, rows in sources]).tolist()
        parts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        for part, source in zip(parts, sources, strict=True):
            self._requests.numpy()[part] = self._rows.requests[source]
        results = self._compute(ends[-1], weight_version).numpy()
        for part, source in zip(parts, sources, strict=True):
            self._rows.results[source] = results[part]

    def _compute(self, count: int, weight_version: int) -> torch.Tensor:
        """The results of the first `count` requests: rows `[count, nbytes]` on the CPU."""
        size = self._pad(count, self._device)
        on_cpu = self._requests[:size]
        request = self._rows.request_layout.tensors(on_cpu.to(self._device, non_blocking=True))
        uniforms = self._rows.request_layout.tensors(on_cpu)["uniform"]
        state = ActorState(request["lstm_state"], request["previous_action"], request["previous_reward"])
        decision = self._actor.act(as_batch(request["observation"]), state, uniforms, request["vector"])
        results = self._rows.result_layout.tensors(self._results[:size])
        results["logits"].copy_(decision.logits)
        results["value"].copy_(decision.values)
        results["features"].copy_(decision.features)
        results["lstm_state"].copy_(decision.lstm_state)
        rows = self._results[:count].cpu()
        on_cpu_results = self._rows.result_layout.tensors(rows)
        on_cpu_results["action"].copy_(decision.actions[:count])
        on_cpu_results["weight_version"].fill_(weight_version)
        return rows


@dataclass(frozen=True)
class InferenceServer:
    """The inference server's process: what it gets when it starts, and what it does."""

    network: NetworkOptions
    compute_dtype: torch.dtype
    device: torch.device
    rows: InferenceRows
    weights: SharedWeights
    times: WorkerTimes  # the last row is the server's
    lockstep: bool
    pad: Callable[[int, torch.device], int] = padded_size

    def run(self, learner: Connection) -> None:
        use_one_thread()
        prepare_torch(self.device, self.lockstep)
        network = ActorCritic(self.network, self.rows.layout, self.compute_dtype).to(self.device)
        actor = Actor(network)
        newest = NewestWeights(self.weights, actor, self.device)
        policy = BatchedPolicy(actor, self.rows, self.device, self.pad)
        clock = WorkerClock(self.times.seconds[-1])
        alive, has_acted = Heartbeat(learner), False
        with closing(WorkerPipes(learner)) as pipes:
            while True:
                requests = pipes.wait(HEARTBEAT_SECONDS)
                # In lockstep each group is a batch: the batch size changes the last bits of the results.
                for batch in [[one] for one in requests] if self.lockstep else [requests] if requests else []:
                    policy.act(batch, newest.load())
                    has_acted = True
                    for pipe, _, group in batch:
                        with suppress(BrokenPipeError, ConnectionResetError):  # the next `wait` drops a dead worker
                            send(pipe, Kind.ACTION_RESULT, group)
                if alive.is_due:
                    alive(int(has_acted))
                    clock.share()


class WorkerPipes:
    """The server's pipes: one to the learner, and one to each worker, which the learner sends.

    The selector is kept between calls: making a new one each time would take longer than the rest of a batch.
    """

    def __init__(self, learner: Connection) -> None:
        self._learner = learner
        self._pipes: dict[int, Connection] = {}  # by worker
        self._selector = selectors.DefaultSelector()
        self._selector.register(learner, selectors.EVENT_READ)

    def wait(self, timeout: float) -> list[Request]:
        """The requests that arrive within `timeout` seconds; EOFError when the learner is gone."""
        requests = []
        for key, _ in self._selector.select(timeout):
            pipe, worker = key.fileobj, key.data
            assert isinstance(pipe, Connection)
            if pipe is self._learner:
                self._add()
            elif self._pipes.get(worker) is pipe:
                try:
                    requests.append(Request(pipe, worker, receive(pipe).index))
                except (EOFError, ConnectionResetError):
                    self._drop(worker)
        return [request for request in requests if self._pipes.get(request.worker) is request.pipe]

    def _add(self) -> None:
        """Receive the pipe of a new worker. The worker it replaces is dead, and its requests are dropped."""
        message = receive(self._learner)
        worker, pipe = message.index, Connection(message.file)
        self._drop(worker)
        self._pipes[worker] = pipe
        self._selector.register(pipe, selectors.EVENT_READ, worker)

    def _drop(self, worker: int) -> None:
        pipe = self._pipes.pop(worker, None)
        if pipe is not None:
            self._selector.unregister(pipe)
            pipe.close()

    def close(self) -> None:
        for worker in list(self._pipes):
            self._drop(worker)
        self._selector.close()


def connect_worker(server: Connection, worker: int) -> Connection:
    """Make a pipe between a worker and the server; send the server its end, and return the worker's.

    If the server has just died, the pipe is closed at its end, and the worker ends when it sends a request.
    """
    worker_end, server_end = multiprocessing.Pipe()
    with server_end, suppress(BrokenPipeError, ConnectionResetError):
        send(server, Kind.WORKER_PIPE, worker, file=server_end.fileno())
    return worker_end
