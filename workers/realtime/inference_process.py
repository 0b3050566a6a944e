"""A process that makes one decision after another for the games of one worker, as its worker asks for them."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import torch

from agents.acting import Actor, ActorState
from agents.network import make_network
from machine.system_settings import use_one_thread
from option_flags import NetworkOptions
from processes.messages import Kind, receive, send
from realtime.latency import LatencyModel
from workers.inference.rows import InferenceRows
from workers.memory.shared_weights import NewestWeights, SharedWeights
from workers.policy_inputs import as_batch

WARM_UP = 3  # inferences before the first decision: the first ones of a process take much longer
DRAWN_AT_ONCE = 100


@dataclass(frozen=True)
class InferenceProcess:
    """What the process gets when it starts, and what it does."""

    index: int
    network: NetworkOptions
    compute_dtype: torch.dtype
    rows: InferenceRows  # of all inference processes of the worker
    weights: SharedWeights
    latency: LatencyModel | None
    seed: np.random.SeedSequence

    def run(self, worker: Connection) -> None:
        """Answer each request with a decision by the newest weights, until the worker closes the connection."""
        use_one_thread()
        actor = Actor(make_network(self.network, self.rows.layout, self.compute_dtype))
        newest = NewestWeights(self.weights, actor, torch.device("cpu"))
        games = slice(0, self.rows.environments)
        request = self.rows.request_layout.arrays(self.rows.requests[self.index, games])
        result = self.rows.result_layout.arrays(self.rows.results[self.index, games])
        observations = as_batch(torch.from_numpy(request["observation"]))
        state = ActorState(
            *(torch.from_numpy(request[name]) for name in ("lstm_state", "previous_action", "previous_reward"))
        )
        uniforms = torch.from_numpy(request["uniform"])
        random = np.random.default_rng(self.seed)
        times: list[float] = []  # seconds of the next inferences
        newest.load()
        for _ in range(WARM_UP):
            actor.act(observations, state, uniforms)
        send(worker, Kind.HEARTBEAT)
        while True:
            message = receive(worker)
            begun = time.monotonic()
            result["weight_version"][:] = newest.load()
            decision = actor.act(observations, state, uniforms)
            result["action"][:] = decision.actions
            result["logits"][:] = decision.logits
            result["value"][:] = decision.values
            result["features"][:] = decision.features
            result["lstm_state"][:] = decision.lstm_state
            if self.latency is not None:
                times = times or (self.latency.sample(random, DRAWN_AT_ONCE) / 1000).tolist()
                time.sleep(max(0.0, begun + times.pop() - time.monotonic()))
            send(worker, Kind.ACTION_RESULT, message.index, time.process_time())
