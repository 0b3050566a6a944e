"""One process that decides for the environments of all workers (--inference=learner), on the learner's device."""

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import NamedTuple

import numpy as np
import torch

from agents.acting import Actor, ActorState
from agents.device import keep_freed_memory
from agents.network import make_network, weight_count
from option_flags import NetworkOptions
from workers.deciding import NewestWeights
from workers.inference_memory import InferenceMemory
from workers.messages import receive_question, receive_worker, send_alive, send_answer, send_worker
from workers.shared_weights import SharedWeights
from workers.worker_clock import WorkerClock, WorkerTimes

LONGEST_WAIT = 0.5  # seconds between two signs of life, at most


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
        self._on_cpu = device.type == "cpu"
        most = _padded(memory.most_rows_at_once)
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
        # A GPU prepares itself anew for each size of batch that it meets, so it meets few.
        size = count if self._on_cpu else _padded(count)
        asked = self._memory.question_layout.tensors(self._questions[:size].to(self._device, non_blocking=True))
        state = ActorState(asked["lstm_state"], asked["previous_action"], asked["previous_reward"])
        decision = self._actor.act(asked["observation"].flatten(1, 2), state, asked["uniform"])
        answers = self._memory.answer_layout.tensors(self._answers[:size])
        for field, value in zip(answers.values(), decision, strict=True):
            field.copy_(value)
        return self._answers[:count].cpu()


def _padded(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()


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
        torch.set_num_threads(1)
        keep_freed_memory()
        torch.backends.cudnn.benchmark = not self.lockstep
        torch.use_deterministic_algorithms(self.lockstep)
        network = make_network(self.network, self.memory.spec, self.compute_dtype).to(self.device)
        actor = Actor(network)
        newest = NewestWeights(self.weights, actor, weight_count(network))
        policy = BatchedPolicy(actor, self.memory, self.device)
        clock = WorkerClock(self.times.seconds[-1])
        workers: dict[Connection, int] = {}
        sign_of_life_at = float("-inf")
        at_work = False
        while True:
            asked = self._wait(learner, workers)
            # In lockstep the size of a batch, on which the last bits of its answers depend, is not left to chance.
            for batch in [[one] for one in asked] if self.lockstep else [asked] if asked else []:
                version = newest.load()
                policy.answer(batch)
                at_work = True
                for pipe, _, group in batch:
                    with suppress(BrokenPipeError, ConnectionResetError):  # the next `_wait` will hear that it is gone
                        send_answer(pipe, group, version)
            if time.monotonic() - sign_of_life_at >= LONGEST_WAIT:
                sign_of_life_at = time.monotonic()
                send_alive(learner, at_work)
                clock.share()

    def _wait(self, learner: Connection, workers: dict[Connection, int]) -> list[Asked]:
        """What is asked now, or soon; workers that begin are let in, and those that ended are let go."""
        asked = []
        for pipe in connections.wait([learner, *workers], LONGEST_WAIT):
            assert isinstance(pipe, Connection)
            if pipe is learner:
                _let_in(learner, workers)
                continue
            try:
                asked.append(Asked(pipe, workers.get(pipe, -1), receive_question(pipe)))
            except (EOFError, ConnectionResetError):
                _let_go(pipe, workers)
        return [one for one in asked if one.pipe in workers]


def _let_in(learner: Connection, workers: dict[Connection, int]) -> None:
    """Take in a new worker's pipe; whoever held its place before is dead, and what it still asks nobody's question."""
    worker = receive_worker(learner)
    pipe = Connection(recv_handle(learner))
    for older in [older for older, place in workers.items() if place == worker]:
        _let_go(older, workers)
    workers[pipe] = worker


def _let_go(pipe: Connection, workers: dict[Connection, int]) -> None:
    del workers[pipe]
    pipe.close()


def introduce(server: Connection, server_id: int, worker: int) -> Connection:
    """A new pipe between a worker and the server: the server is sent its end, and this is the worker's.

    Where the server has just died, it leads nowhere: whoever asks through it ends, too.
    """
    workers_end, servers_end = multiprocessing.Pipe()
    with servers_end, suppress(BrokenPipeError, ConnectionResetError):
        send_worker(server, worker)
        send_handle(server, servers_end.fileno(), server_id)
    return workers_end
