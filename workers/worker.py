"""A worker: wait for a free slot, see to the newest weights, fill the slot, say so; over and over."""

from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import torch

from agents.acting import Actor
from agents.network import make_network
from machine.system_settings import settle_on_one_core
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from workers.inference_rows import InferenceMemory
from workers.local_policy import Decider, LocalDecider, NewestWeights
from workers.messages import receive_order, send_filled, send_snapshot
from workers.random_streams import stream_of
from workers.remote_policy import RemoteDecider
from workers.rollout import Rollout, Seat
from workers.shared_weights import SharedWeights
from workers.slots import Slots
from workers.worker_clock import REST, WAITING, WorkerClock, WorkerTimes
from wrappers.environment_types import MakeEnvironment


@dataclass(frozen=True)
class Worker:
    """All that a worker process is given."""

    config: Config
    make_environment: MakeEnvironment
    seed: int
    index: int
    life: tuple[int, int]  # resumes of the run, and processes that held this place before: new games each time
    layout: UnrollLayout
    compute_dtype: torch.dtype
    slots: Slots
    weights: SharedWeights
    times: WorkerTimes
    inference: InferenceMemory | None = None  # where to ask for actions, instead of choosing them here

    def run(self, connection: Connection, server: Connection | None = None) -> None:
        settle_on_one_core()
        clock = WorkerClock(self.times.seconds[self.index])
        rollout = Rollout(self._seats(), self._decider(server), self.layout, clock)
        while True:
            order = receive_order(connection)
            if order is None:
                send_snapshot(connection, rollout.snapshot())
            elif isinstance(order, dict):
                rollout.restore(order)
            else:
                clock.lap(WAITING)
                rollout.collect(self.slots.rows[self.index, order])
                send_filled(connection, order)
                clock.lap(REST)
                clock.share()

    def _decider(self, server: Connection | None) -> Decider:
        """A copy of the policy, or the inference server where there is one."""
        if self.inference is not None and server is not None:
            return RemoteDecider(self.inference, self.index, server)
        network = make_network(self.config.network, self.layout, self.compute_dtype)
        actor = Actor(network)
        newest = NewestWeights(self.weights, actor, torch.device("cpu"))
        return LocalDecider(actor, self.layout, self.config.workers.envs_per_worker, newest.load)

    def _seats(self) -> list[Seat]:
        """The environments, each with random streams that depend on the seed, its number and the life only."""
        count = self.config.workers.envs_per_worker
        seats = []
        for environment_id in range(self.index * count, (self.index + 1) * count):
            sequence = stream_of("environment", self.seed, environment_id, *self.life)
            game_stream, action_stream = sequence.spawn(2)
            environment = self.make_environment(self.config.environment, int(game_stream.generate_state(1)[0] >> 1))
            seats.append(Seat(environment, environment_id, np.random.default_rng(action_stream)))
        return seats
