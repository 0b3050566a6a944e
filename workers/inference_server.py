"""One process that decides for the environments of all workers (--inference=learner), on the learner's device."""

import multiprocessing
import selectors
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import NamedTuple

import numpy as np
import torch

from agents.acting import Actor, ActorState
from agents.network import make_network
from machine.device import prepare_torch, size_computed
from machine.system_settings import settle_on_one_core
from option_flags import NetworkOptions
from workers.inference_rows import InferenceMemory
from workers.local_policy import NewestWeights
from workers.messages import receive_question, receive_worker, send_alive, send_answer, send_worker
from workers.observations import as_batch
from workers.shared_weights import SharedWeights
from workers.worker_clock import WorkerClock, WorkerTimes

SIGN_OF_LIFE_SECONDS = 1.0


class Asked(NamedTuple):
    """One worker's wish for decisions for one group of its environments."""

    pipe: Connection
    worker: int
    group: int


class BatchedPolicy:
    """The policy on its device: takes rows of questions, leaves rows of answers."""

    def __init__(self, actor: Actor, memory: InferenceMemory, device: torch.device) -> None:
        self._actor = actor
        self._memory = memory
        self._device = device
        most = size_computed(memory.most_rows_at_once, device)
        self._questions = torch.zeros(
            most, memory.question_layout.nbytes, dtype=torch.uint8, pin_memory=device.type == "cuda"
        )
        self._answers = torch.zeros(most, memory.answer_layout.nbytes, dtype=torch.uint8, device=device)

    @torch.inference_mode()
    def answer(self, batch: Sequence[Asked]) -> None:
        """One forward pass for all of them."""
        places = [(asked.worker, self._memory.groups[asked.group]) for asked in batch]
        ends = np.cumsum([rows.stop - rows.start for _, rows in places]).tolist()
        parts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        for part, place in zip(parts, places, strict=True):
            self._questions.numpy()[part] = self._memory.questions[place]
        answers = self._decide(ends[-1]).numpy()
        for part, place in zip(parts, places, strict=True):
            self._memory.answers[place] = answers[part]

    def _decide(self, count: int) -> torch.Tensor:
        """The answers to the first questions that lie here: rows `[count, nbytes]` on the CPU."""
        size = size_computed(count, self._device)
        here = self._questions[:size]
        asked = self._memory.question_layout.tensors(here.to(self._device, non_blocking=True))
        uniforms = self._memory.question_layout.tensors(here)["uniform"]
        state = ActorState(asked["lstm_state"], asked["previous_action"], asked["previous_reward"])
        decision = self._actor.act(as_batch(asked["observation"]), state, uniforms)
        answers = self._memory.answer_layout.tensors(self._answers[:size])
        answers["logits"].copy_(decision.logits)
        answers["value"].copy_(decision.values)
        answers["features"].copy_(decision.features)
        answers["lstm_state"].copy_(decision.lstm_state)
        rows = self._answers[:count].cpu()
        self._memory.answer_layout.tensors(rows)["action"].copy_(decision.actions[:count])
        return rows


@dataclass(frozen=True)
class InferenceServer:
    """All that the server's process is given."""

    network: NetworkOptions
    compute_dtype: torch.dtype
    device: torch.device
    memory: InferenceMemory
    weights: SharedWeights
    times: WorkerTimes  # its last row is the server's
    lockstep: bool

    def run(self, learner: Connection) -> None:
        settle_on_one_core()
        prepare_torch(self.device, self.lockstep)
        network = make_network(self.network, self.memory.layout, self.compute_dtype).to(self.device)
        actor = Actor(network)
        newest = NewestWeights(self.weights, actor, self.device)
        policy = BatchedPolicy(actor, self.memory, self.device)
        clock = WorkerClock(self.times.seconds[-1])
        at_work, sign_of_life_at = False, float("-inf")
        with closing(Callers(learner)) as callers:
            while True:
                asked = callers.wait(SIGN_OF_LIFE_SECONDS)
                # In lockstep a batch's size, on which the last bits of its answers depend, is not left to chance.
                for batch in [[one] for one in asked] if self.lockstep else [asked] if asked else []:
                    version = newest.load()
                    policy.answer(batch)
                    at_work = True
                    for pipe, _, group in batch:
                        with suppress(BrokenPipeError, ConnectionResetError):  # the next `wait` will see that it ended
                            send_answer(pipe, group, version)
                if time.monotonic() - sign_of_life_at >= SIGN_OF_LIFE_SECONDS:
                    sign_of_life_at = time.monotonic()
                    send_alive(learner, at_work)
                    clock.share()


class Callers:
    """The pipes that the server listens to: the learner's, and one of each worker, which the learner sends.

    A selector keeps them from one call to the next: to begin anew each time would cost more than the rest of a batch.
    """

    def __init__(self, learner: Connection) -> None:
        self._learner = learner
        self._pipes: dict[int, Connection] = {}  # by worker
        self._selector = selectors.DefaultSelector()
        self._selector.register(learner, selectors.EVENT_READ)

    def wait(self, timeout: float) -> list[Asked]:
        """What is asked now, or soon; EOFError when the learner is gone."""
        asked = []
        for key, _ in self._selector.select(timeout):
            pipe, worker = key.fileobj, key.data
            assert isinstance(pipe, Connection)
            if pipe is self._learner:
                self._let_in()
            elif self._pipes.get(worker) is pipe:
                try:
                    asked.append(Asked(pipe, worker, receive_question(pipe)))
                except (EOFError, ConnectionResetError):
                    self._let_go(worker)
        return [one for one in asked if self._pipes.get(one.worker) is one.pipe]

    def _let_in(self) -> None:
        """Take a new worker's pipe. Who held its place before is dead, and nobody waits for what that one asked."""
        worker = receive_worker(self._learner)
        pipe = Connection(recv_handle(self._learner))
        self._let_go(worker)
        self._pipes[worker] = pipe
        self._selector.register(pipe, selectors.EVENT_READ, worker)

    def _let_go(self, worker: int) -> None:
        pipe = self._pipes.pop(worker, None)
        if pipe is not None:
            self._selector.unregister(pipe)
            pipe.close()

    def close(self) -> None:
        for worker in list(self._pipes):
            self._let_go(worker)
        self._selector.close()


def introduce(server: Connection, server_id: int, worker: int) -> Connection:
    """A new pipe between a worker and the server: the server is sent its end, and this is the worker's.

    Where the server has just died, it leads nowhere: whoever asks through it ends, too.
    """
    workers_end, servers_end = multiprocessing.Pipe()
    with servers_end, suppress(BrokenPipeError, ConnectionResetError):
        send_worker(server, worker)
        send_handle(server, servers_end.fileno(), server_id)
    return workers_end
