"""What each inference process of a worker does, and what all of them have in common."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from machine.system_settings import use_one_thread
from option_flags import Config
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import InferenceRows
from workers.randomness import stream_of
from workers.realtime.timing import latencies
from workers.shared_weights import NewestWeights, SharedWeights

WARM_UP = 3  # inferences before the first decision: the first ones of a process take much longer


@dataclass(frozen=True, kw_only=True)
class RealtimeSetup:
    """What the games and the inference processes of one worker or player need."""

    config: Config
    layout: UnrollLayout
    compute_dtype: torch.dtype
    weights: SharedWeights
    processes: int
    seed: Sequence[int]  # of the latencies
    greedy: bool = False


@dataclass(frozen=True)
class InferenceProcess:
    """What the process gets when it starts, and what it does."""

    setup: RealtimeSetup
    rows: InferenceRows  # of all inference processes of the worker
    index: int
    starts: int  # processes before this one in its place

    def run(self, worker: Connection) -> None:
        """Answer each request with a decision by the newest weights, until the worker closes the connection.

        The first answer says that it is ready. Each other one has the CPU time since the one before.
        """
        use_one_thread()
        setup = self.setup
        latency = latencies(setup.config.realtime)
        actor = Actor(ActorCritic(setup.config.network, setup.layout, setup.compute_dtype))
        newest = NewestWeights(setup.weights, actor, torch.device("cpu"))
        games = slice(0, self.rows.environments)
        inputs = self.rows.inputs(self.index).select(games)
        results, versions = self.rows.decisions(self.index)
        random = np.random.default_rng(stream_of("latency", *setup.seed, self.index, self.starts))
        newest.load()
        for _ in range(WARM_UP):
            actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)
        cpu = 0.0
        send(worker, Kind.HEARTBEAT)
        while True:
            receive(worker)
            begun = time.monotonic()
            versions.fill_(newest.load())
            decision = actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)
            if setup.greedy:
                decision = decision._replace(actions=actor.distribution.most_likely(decision.logits))
            for result, part in zip(results, decision, strict=True):
                result[games].copy_(part)
            if latency is not None:
                time.sleep(max(0.0, begun + random.choice(latency) / 1000 - time.monotonic()))
            before, cpu = cpu, time.process_time()
            send(worker, Kind.ACTION_RESULT, payload=cpu - before)
