"""A worker: wait for a free slot, take the newest weights, fill the slot, say so; over and over."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cv2
import gymnasium
import numpy as np
import torch

from agents.acting import Actor
from agents.device import keep_freed_memory
from agents.network import make_network, weight_count
from option_flags import Config, EnvironmentOptions
from replay.trajectory import UnrollSpec
from workers.messages import SNAPSHOT_REQUEST, receive_slot, send_filled, send_snapshot
from workers.rollout import Rollout, Seat
from workers.shared_weights import NOT_PUBLISHED, SharedWeights
from workers.slots import Slots
from workers.worker_clock import REST, WAITING, WEIGHTS, WorkerClock, WorkerTimes

MakeEnvironment = Callable[[EnvironmentOptions, int], gymnasium.Env[Any, Any]]  # spawned workers find it by its name


@dataclass(frozen=True)
class Worker:
    """All that a worker process is given."""

    config: Config
    make_environment: MakeEnvironment
    seed: int
    index: int
    life: tuple[int, int]  # resumes of the run, and processes that held this place before: new games each time
    spec: UnrollSpec
    compute_dtype: torch.dtype
    slots: Slots
    weights: SharedWeights
    times: WorkerTimes
    snapshot: dict[str, Any] | None = None  # where to go on from, instead of new games

    def run(self, connection: Connection) -> None:
        torch.set_num_threads(1)
        cv2.setNumThreads(1)
        keep_freed_memory()
        network = make_network(self.config.network, self.spec, self.compute_dtype)
        flat = torch.zeros(weight_count(network))
        actor = Actor(network)
        seats = self._seats()
        clock = WorkerClock(self.times.seconds[self.index])
        rollout = Rollout(seats, actor, self.spec, clock)
        if self.snapshot is not None:
            rollout.restore(self.snapshot)
        version = NOT_PUBLISHED
        while True:
            slot = receive_slot(connection)
            if slot == SNAPSHOT_REQUEST:
                send_snapshot(connection, rollout.snapshot())
                continue
            clock.lap(WAITING)
            newest = self.weights.copy_newer(version, flat)
            if newest != version:
                actor.load(flat)
                version = newest
            clock.lap(WEIGHTS)
            rollout.collect(self.slots.rows[self.index, slot], version)
            send_filled(connection, slot)
            clock.lap(REST)
            clock.share()

    def _seats(self) -> list[Seat]:
        """The environments, each with random streams that depend on the seed, its number and the life only."""
        count = self.config.workers.envs_per_worker
        seats = []
        for environment_id in range(self.index * count, (self.index + 1) * count):
            sequence = np.random.SeedSequence((self.seed, environment_id, *self.life))
            game_stream, action_stream = sequence.spawn(2)
            environment = self.make_environment(self.config.environment, int(game_stream.generate_state(1)[0] >> 1))
            seats.append(Seat(environment, environment_id, np.random.default_rng(action_stream)))
        return seats
