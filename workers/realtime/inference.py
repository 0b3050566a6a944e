"""The inference processes of one worker: what each does, and the pool that asks them and replaces them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Literal, NamedTuple

import numpy as np
import torch

from agents.acting import Actor, ActorState, Decision
from agents.network import ActorCritic
from machine.system_settings import use_one_thread
from option_flags import EnvironmentOptions, NetworkOptions, RealtimeOptions
from processes.child import Work
from processes.messages import Kind, receive, send
from processes.pool import ChildPool, Ended, Member
from replay.unroll_layout import UnrollLayout
from workers.inference.rows import InferenceRows
from workers.memory.shared_weights import NewestWeights, SharedWeights
from workers.policy_inputs import PolicyInputs, as_batch
from workers.random_streams import stream_of
from workers.realtime.latency import LatencyModel

WARM_UP = 3  # inferences before the first decision: the first ones of a process take much longer
DRAWN_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class RealtimeSetup:
    """What the games and the inference processes of one worker or player need."""

    environment: EnvironmentOptions
    realtime: RealtimeOptions
    network: NetworkOptions
    layout: UnrollLayout
    compute_dtype: torch.dtype
    weights: SharedWeights
    latency: LatencyModel | None
    processes: int
    timeout: float  # seconds, beside the latency, after which an inference process that does not answer is replaced
    seed: Sequence[int]  # of the latencies


@dataclass(frozen=True)
class InferenceProcess:
    """What the process gets when it starts, and what it does."""

    setup: RealtimeSetup
    rows: InferenceRows  # of all inference processes of the worker
    index: int
    starts: int  # processes before this one in its place

    def run(self, worker: Connection) -> None:
        """Answer each request with a decision by the newest weights, until the worker closes the connection.

        An answer has the CPU time since the one before.
        """
        use_one_thread()
        latency = self.setup.latency
        actor = Actor(ActorCritic(self.setup.network, self.setup.layout, self.setup.compute_dtype))
        newest = NewestWeights(self.setup.weights, actor, torch.device("cpu"))
        games = slice(0, self.rows.environments)
        request = self.rows.request_layout.arrays(self.rows.requests[self.index, games])
        result = self.rows.result_layout.arrays(self.rows.results[self.index, games])
        observations = as_batch(torch.from_numpy(request["observation"]))
        state = ActorState(
            *(torch.from_numpy(request[name]) for name in ("lstm_state", "previous_action", "previous_reward"))
        )
        uniforms = torch.from_numpy(request["uniform"])
        random = np.random.default_rng(stream_of("latency", *self.setup.seed, self.index, self.starts))
        times: list[float] = []  # seconds of the next inferences
        newest.load()
        for _ in range(WARM_UP):
            actor.act(observations, state, uniforms)
        cpu = 0.0
        send(worker, Kind.HEARTBEAT)
        while True:
            receive(worker)
            begun = time.monotonic()
            result["weight_version"][:] = newest.load()
            decision = actor.act(observations, state, uniforms)
            result["action"][:] = decision.actions
            result["logits"][:] = decision.logits
            result["value"][:] = decision.values
            result["features"][:] = decision.features
            result["lstm_state"][:] = decision.lstm_state
            if latency is not None:
                times = times or (latency.sample(random, DRAWN_AT_ONCE) / 1000).tolist()
                time.sleep(max(0.0, begun + times.pop() - time.monotonic()))
            before, cpu = cpu, time.process_time()
            send(worker, Kind.ACTION_RESULT, payload=cpu - before)


class News(NamedTuple):
    """What has happened to a process: it is ready, has made its decision, or has ended, and is replaced."""

    what: Literal["joined", "answered", "lost"]
    process: int


class InferencePool:
    """Keeps N processes running. For a wait for several things, it is ready when `receive` would find one."""

    def __init__(self, children: ChildPool, make: Callable[[int, int], Work], rows: InferenceRows) -> None:
        """`make` gets the index of a process, and the number of processes before it in its place."""
        self._children = children
        games = slice(0, rows.environments)
        self._requests = [rows.request_layout.arrays(row[games]) for row in rows.requests]
        results = [rows.result_layout.arrays(row[games]) for row in rows.results]
        names = ("action", "logits", "value", "features", "lstm_state")
        self._decisions = [Decision(*(torch.from_numpy(result[name]) for name in names)) for result in results]
        self._versions = [result["weight_version"] for result in results]

        # The first answer of a process says that it is ready.
        self._members = [
            Member(f"inference process {index}", partial(make, index), index, owes_at_start=1)
            for index in range(rows.workers)
        ]
        self._ready: set[int] = set()
        self._cpu = 0.0  # seconds that were not taken yet
        for member in self._members:
            children.add(member)

    @property
    def all_ready(self) -> bool:
        return len(self._ready) == len(self._members)

    def fileno(self) -> int:
        return self._children.fileno()

    def request(self, process: int, inputs: PolicyInputs) -> None:
        """Ask a process for a decision. If it has just died, `receive` will say so."""
        request = self._requests[process]
        request["observation"][:] = inputs.observations
        request["uniform"][:] = inputs.uniforms
        request["lstm_state"][:] = inputs.state.lstm_state
        request["previous_action"][:] = inputs.state.previous_actions
        request["previous_reward"][:] = inputs.state.previous_rewards
        self._children.request(self._members[process], Kind.ACTION_REQUEST)

    def result(self, process: int) -> tuple[Decision, int]:
        """The decision that a process has made, in memory that its next one overwrites, and the weights' version."""
        return self._decisions[process], int(self._versions[process][0])

    def take_cpu_seconds(self) -> float:
        """CPU time of the processes since the last call, as far as they have told."""
        seconds, self._cpu = self._cpu, 0.0
        return seconds

    def receive(self) -> Iterator[News]:
        """What has happened. Call it once a second at least: it also replaces processes that do not answer.

        WorkersFailedError if one fails again and again.
        """
        for member, event in self._children.poll(0.0):
            if isinstance(event, Ended):
                self._ready.discard(member.index)
                self._children.replace(member, event)
                yield News("lost", member.index)
                continue
            member.owes -= 1
            if event.kind == Kind.HEARTBEAT:
                self._ready.add(member.index)
                yield News("joined", member.index)
            else:
                member.failures = 0
                self._cpu += event.payload
                yield News("answered", member.index)

    def close(self) -> None:
        """End all processes."""
        self._children.close()
