"""A worker process: it waits for a free slot, plays one round into it, and repeats."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from machine.machine_setup import Machine
from machine.system_settings import use_one_thread
from option_flags import Config
from processes.inside import Heartbeat
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.delayed_rollout import DelayedRollout
from workers.policies import ActingPolicy, LocalPolicy, RemotePolicy
from workers.policy_inputs import InferenceRows
from workers.randomness import HeldActions, explores, stream_of
from workers.rollout import Rollout, SeededEnvironment
from workers.shared_array import REST, WAITING, SharedArray, WorkerClock
from workers.shared_weights import NewestWeights, SharedWeights
from wrappers.environment import MakeEnvironment

LONGEST_FAILURE = 3_000  # characters, so that the message is written in one piece


@dataclass(frozen=True)
class PlaySetup:
    """What the workers of one machine play."""

    config: Config  # with a seed
    make_environment: MakeEnvironment
    layout: UnrollLayout
    machine: Machine
    resume_count: int = 0  # resumes of the run so far
    logs: Path | None = None  # the folder for what the processes print; None: it is quoted if one ends, and not kept


@dataclass(frozen=True)
class SharedMemory:
    """What the workers of one machine share with each other and with the learner."""

    slots: SharedArray  # [worker, slot, environment, nbytes], see `WorkerPool`
    weights: SharedWeights
    times: SharedArray  # `make_times`: a row for each worker, and one for the inference server
    inference: InferenceRows | None = None  # with --inference=learner


@dataclass(frozen=True)
class Worker:
    """What a worker process gets when it starts, and what it does."""

    setup: PlaySetup
    memory: SharedMemory
    index: int
    restart_index: int = 0  # processes before it in the same place; games differ after each resume and restart
    server: Connection | None = None  # with --inference=learner
    snapshot: dict[str, Any] | None = None  # what it continues from

    def run(self, connection: Connection) -> None:
        use_one_thread()
        config, layout = self.setup.config, self.setup.layout
        clock = WorkerClock(self.memory.times.array[self.index])
        # The time that the learner waits for an answer is then a limit for one step of the environments.
        alive = Heartbeat(connection)
        environments = self.make_environments(alive)
        policy = self._make_policy()
        if layout.delayed_actions:
            rollout: Rollout = DelayedRollout(environments, policy, layout, config.environment, clock, alive)
        else:
            rollout = Rollout(environments, policy, layout, clock, alive)
        if self.snapshot is not None:
            rollout.restore(self.snapshot)
        clock.lap(REST)  # the start is no time of waiting
        while True:
            message = receive(connection)
            if message.kind == Kind.SNAPSHOT_REQUEST:
                send(connection, Kind.SNAPSHOT, payload=rollout.snapshot())
                continue
            clock.lap(WAITING)
            rollout.collect(self.memory.slots.array[self.index, message.index])
            for each in environments:
                report_failed_resets(connection, each.failed_resets)
            send(connection, Kind.SLOT_FILLED, message.index)
            clock.lap(REST)
            clock.share()

    def _make_policy(self) -> ActingPolicy:
        """The inference server if there is one, else a copy of the network."""
        if self.memory.inference is not None and self.server is not None:
            return RemotePolicy(self.memory.inference, self.index, self.server, self.restart_index)
        config, layout = self.setup.config, self.setup.layout
        actor = Actor(ActorCritic(config.network, layout, self.setup.machine.worker_precision))
        newest = NewestWeights(self.memory.weights, actor, torch.device("cpu"))
        return LocalPolicy(actor, layout, config.workers.envs_per_worker, newest.load)

    def make_environments(self, alive: Callable[[], None]) -> list[SeededEnvironment]:
        """The environments. Their random streams depend on the seed, their id, the resumes and the restarts only."""
        config = self.setup.config
        count = config.workers.envs_per_worker
        environments = []
        for environment_id in range(self.index * count, (self.index + 1) * count):
            sequence = stream_of(
                "environment", config.seed, environment_id, self.setup.resume_count, self.restart_index
            )
            game_stream, action_stream, cut_stream = sequence.spawn(3)
            environment = self.setup.make_environment(config.environment, int(game_stream.generate_state(1)[0] >> 1))
            if config.environment.spread_starts:
                environment.get_wrapper_attr("cut_first_episode")(np.random.default_rng(cut_stream))
            held = None
            if self.setup.layout.explores and explores(environment_id, config.workers.exploring_share):
                held = HeldActions(self.setup.layout, np.random.default_rng(sequence.spawn(1)[0]))
            uniforms = np.random.default_rng(action_stream)
            environments.append(SeededEnvironment(environment, environment_id, uniforms, held))
            alive()
        return environments


def report_failed_resets(connection: Connection, failures: list[str]) -> None:
    """Tell the learner which resets failed and were tried again, and forget them."""
    if failures:
        send(connection, Kind.FAILED_RESETS, len(failures), failures[-1][-LONGEST_FAILURE:])
        failures.clear()
