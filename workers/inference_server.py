"""One process that chooses the actions of all workers on the learner's device (--inference=learner)."""

import selectors
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from machine.device import padded_size, prepare_torch
from machine.system_settings import use_one_thread
from option_flags import NetworkOptions
from processes.inside import HEARTBEAT_SECONDS, Heartbeat
from processes.messages import Kind, receive, send
from workers.policy_inputs import DECISION, InferenceRows, as_batch, state_in
from workers.shared_array import SharedArray, WorkerClock
from workers.shared_weights import NewestWeights, SharedWeights

# A worker, and the number of the group of its environments for which it asks. The numbers of a replaced worker go on
# where those of the process before it ended.
Request = tuple[int, int]


class BatchedPolicy:
    """The policy on its device: reads the rows of requests and writes the rows of results."""

    def __init__(self, actor: Actor, rows: InferenceRows, device: torch.device) -> None:
        self._actor = actor
        self._rows = rows
        self._device = device
        most = padded_size(rows.workers * rows.groups[0].stop, device)  # one group of each worker
        self._requests = torch.zeros(
            most, rows.request_layout.nbytes, dtype=torch.uint8, pin_memory=device.type == "cuda"
        )
        self._results = torch.zeros(most, rows.result_layout.nbytes, dtype=torch.uint8, device=device)

    @torch.inference_mode()
    def act(self, batch: Sequence[Request], weight_version: int) -> None:
        """Compute the results of all requests in one forward pass."""
        groups = self._rows.groups
        sources = [(worker, groups[number % len(groups)]) for worker, number in batch]
        ends = np.cumsum([rows.stop - rows.start for _, rows in sources]).tolist()
        parts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        for part, source in zip(parts, sources, strict=True):
            self._requests.numpy()[part] = self._rows.requests.array[source]
        results = self._compute(ends[-1], weight_version).numpy()
        for part, source in zip(parts, sources, strict=True):
            self._rows.results.array[source] = results[part]

    def _compute(self, count: int, weight_version: int) -> torch.Tensor:
        """The results of the first `count` requests: rows `[count, nbytes]` on the CPU."""
        size = padded_size(count, self._device)
        on_cpu = self._requests[:size]
        request = self._rows.request_layout.tensors(on_cpu.to(self._device, non_blocking=True))
        uniforms = self._rows.request_layout.tensors(on_cpu)["uniform"]
        decision = self._actor.act(as_batch(request["observation"]), state_in(request), uniforms, request["vector"])
        results = self._rows.result_layout.tensors(self._results[:size])
        for name, part in zip(DECISION[1:], decision[1:], strict=True):
            results[name].copy_(part)
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
    times: SharedArray  # the last row is the server's
    lockstep: bool
    pipes: Sequence[Connection]  # to each worker

    def run(self, learner: Connection) -> None:
        use_one_thread()
        prepare_torch(self.device, self.lockstep)
        network = ActorCritic(self.network, self.rows.layout, self.compute_dtype).to(self.device)
        actor = Actor(network)
        newest = NewestWeights(self.weights, actor, self.device)
        policy = BatchedPolicy(actor, self.rows, self.device)
        clock = WorkerClock(self.times.array[-1])
        alive, has_acted = Heartbeat(learner), False
        with selectors.DefaultSelector() as selector:
            for worker, pipe in [(-1, learner), *enumerate(self.pipes)]:
                selector.register(pipe, selectors.EVENT_READ, (worker, pipe))
            while True:
                ready = [key.data for key, _ in selector.select(HEARTBEAT_SECONDS)]
                # The learner sends nothing. When it closes its pipe, an EOFError ends this process.
                requests = [(worker, receive(pipe).index) for worker, pipe in ready]
                # In lockstep each group is a batch: the batch size changes the last bits of the results.
                for batch in [[one] for one in requests] if self.lockstep else [requests] if requests else []:
                    policy.act(batch, newest.load())
                    has_acted = True
                    for worker, number in batch:
                        send(self.pipes[worker], Kind.ACTION_RESULT, number)
                if alive.is_due:
                    alive(int(has_acted))
                    clock.share()
