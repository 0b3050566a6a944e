"""A worker process: it waits for a free slot, plays one round into it, and repeats."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import torch

from agents.acting import Actor
from agents.network import make_network
from machine.system_settings import use_one_thread
from option_flags import Config
from processes.inside import Heartbeat
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.inference.remote_policy import RemotePolicy
from workers.inference.rows import InferenceRows
from workers.local_policy import ActingPolicy, LocalPolicy
from workers.memory.shared_weights import NewestWeights, SharedWeights
from workers.memory.slots import Slots
from workers.open_unrolls import OpenUnrolls
from workers.random_streams import stream_of
from workers.rollout import Rollout, SeededEnvironment
from workers.worker_clock import REST, WAITING, WorkerClock, WorkerTimes
from wrappers.any_environment.adapter import SpreadStarts
from wrappers.environment import MakeEnvironment

TELL_SECONDS = 1.0
LONGEST_FAILURE = 3_000  # characters, so that the message is written in one piece


class FailedResets:
    """Tells the learner of resets that failed and were tried again: the first at once, then once a second at most."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._untold = 0
        self._due = 0.0

    def __call__(self, failure: str) -> None:
        self._untold += 1
        now = time.monotonic()
        if now >= self._due:
            self._due = now + TELL_SECONDS
            send(self._connection, Kind.FAILED_RESETS, self._untold, failure[-LONGEST_FAILURE:])
            self._untold = 0


@dataclass(frozen=True)
class Worker:
    """What a worker process gets when it starts, and what it does."""

    config: Config
    make_environment: MakeEnvironment
    seed: int
    index: int
    resume_count: int  # resumes of the run so far
    restart_index: int  # processes before this one in the same run; games differ after each resume and restart
    layout: UnrollLayout
    compute_dtype: torch.dtype
    slots: Slots
    weights: SharedWeights
    times: WorkerTimes
    inference: InferenceRows | None = None  # set with --inference=learner
    server: Connection | None = None  # the inference server

    def run(self, connection: Connection) -> None:
        use_one_thread()
        clock = WorkerClock(self.times.seconds[self.index])
        # The time that the learner waits for an answer is then a limit for one step of the environments.
        alive = Heartbeat(connection)
        environments = self._make_environments(alive, connection)
        open_unrolls = None
        if self.layout.delayed_actions:
            open_unrolls = OpenUnrolls(self.layout, self.config.environment, [each.env for each in environments])
        rollout = Rollout(environments, self._make_policy(), self.layout, clock, open_unrolls, alive)
        while True:
            message = receive(connection)
            if message.kind == Kind.SNAPSHOT_REQUEST:
                send(connection, Kind.SNAPSHOT, payload=rollout.snapshot())
            elif message.kind == Kind.SNAPSHOT:
                rollout.restore(message.payload)
            else:
                clock.lap(WAITING)
                rollout.collect(self.slots.rows[self.index, message.index])
                send(connection, Kind.SLOT_FILLED, message.index)
                clock.lap(REST)
                clock.share()

    def _make_policy(self) -> ActingPolicy:
        """The inference server if there is one, else a copy of the network."""
        if self.inference is not None and self.server is not None:
            return RemotePolicy(self.inference, self.index, self.server)
        network = make_network(self.config.network, self.layout, self.compute_dtype)
        actor = Actor(network)
        newest = NewestWeights(self.weights, actor, torch.device("cpu"))
        return LocalPolicy(actor, self.layout, self.config.workers.envs_per_worker, newest.load)

    def _make_environments(self, alive: Callable[[], None], connection: Connection) -> list[SeededEnvironment]:
        """The environments. Their random streams depend on the seed, their id, the resumes and the restarts only."""
        count = self.config.workers.envs_per_worker
        environments = []
        tell = FailedResets(connection)
        for environment_id in range(self.index * count, (self.index + 1) * count):
            sequence = stream_of("environment", self.seed, environment_id, self.resume_count, self.restart_index)
            game_stream, action_stream, cut_stream = sequence.spawn(3)
            environment = self.make_environment(self.config.environment, int(game_stream.generate_state(1)[0] >> 1))
            if self.config.environment.spread_starts:
                time_limit = environment.get_wrapper_attr("time_limit")
                environment = SpreadStarts(environment, time_limit, np.random.default_rng(cut_stream))
            uniforms = np.random.default_rng(action_stream)
            environments.append(SeededEnvironment(environment, environment_id, uniforms, tell))
            alive()
        return environments
