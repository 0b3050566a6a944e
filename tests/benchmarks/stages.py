"""Each stage of training alone: as the platform does it, and as a bare loop.

All are made for one configuration: its game, network, batch, environments in a worker and device of the learner.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import ale_py
import gymnasium
import numpy as np
import torch

from agents.acting import Actor, ActorState, weight_count
from agents.gradients import record_on_gpu
from agents.learner import Learner
from agents.network import PIXEL_SCALE, ActorCritic, NetworkInput
from agents.spaces import make_unroll_layout
from agents.torsos.pictures import channels_last
from machine.device import choose_device, choose_precision, prepare_torch
from option_flags import Config
from replay.mix import Batch
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.benchmarks.environment import WIDTH, Actions, by_hand, our_chain, vector_env
from tests.benchmarks.recording import make_rollout, record_untrained
from tests.benchmarks.timing import Stage
from training.train import records_updates
from workers.shared_weights import NOT_PUBLISHED, SharedWeights, make_publisher
from wrappers.atari import make_atari

BY_HAND, CHAIN, VECTOR = "ALE by hand", "our chain", f"AtariVectorEnv, {WIDTH} games"
BARE_INFERENCE, ACT = "inference, bare loop", "inference, Actor.act"
BARE_LEARNING, UPDATE = "learning, bare loop", "learning, Learner.update"
BARE_WORKER, WORKER = "whole worker, bare loops by turns", "whole worker, Rollout.collect"
PUBLISH, COPY = "weights, publish", "weights, copy"
ENVIRONMENT_STEPS = 10 * WIDTH  # in one run of an environment's stage


@dataclass(frozen=True)
class Bench:
    """The parts from which the stages of one configuration are made."""

    config: Config

    @cached_property
    def device(self) -> torch.device:
        """The learner's device, prepared as in a run."""
        device = choose_device(self.config.run.device)
        prepare_torch(device, repeatable=False)
        return device

    @cached_property
    def precision(self) -> torch.dtype:
        return choose_precision(self.config.run.precision, self.device)

    @cached_property
    def worker_precision(self) -> torch.dtype:
        return choose_precision(self.config.run.precision, torch.device("cpu"))

    @cached_property
    def layout(self) -> UnrollLayout:
        return make_unroll_layout(self.config, make_atari)

    @cached_property
    def rows(self) -> Rows:
        """The unrolls of one batch."""
        return record_untrained(self.config, self.layout, self.worker_precision, self.config.replay.batch_size)

    @cached_property
    def batch(self) -> Batch:
        """A batch in the order of the mix: fresh unrolls first."""
        fresh = np.arange(len(self.rows)) < self.config.fresh_unrolls_per_batch
        rows = torch.from_numpy(self.rows)
        return Batch(rows.pin_memory() if self.device.type == "cuda" else rows, fresh)

    def network(self) -> ActorCritic:
        """The learner's network."""
        torch.manual_seed(0)
        return ActorCritic(self.config.network, self.layout, self.precision)

    def workers_network(self) -> ActorCritic:
        torch.manual_seed(0)
        return ActorCritic(self.config.network, self.layout, self.worker_precision)

    def learner(self) -> Learner:
        config, network = self.config, self.network()
        learner = Learner(network, self.layout, config.loss, config.optimizer, 10**6, self.device)
        if records_updates(config, self.device, network):
            learner.record(record_on_gpu, print)
        return learner


def environment_stages(bench: Bench) -> list[Stage]:
    options = bench.config.environment
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    game = gymnasium.registry[options.env].kwargs["game"]
    generator = np.random.default_rng(0)

    def stage(name: str, play: Callable[[Actions], None]) -> Stage:
        return Stage(
            name,
            lambda: play(generator.integers(0, bench.layout.action_count, ENVIRONMENT_STEPS)),
            ENVIRONMENT_STEPS,
        )

    players = {BY_HAND: by_hand(game), CHAIN: our_chain(options), VECTOR: vector_env(game, WIDTH)}
    return [stage(name, play) for name, play in players.items()]


def inference_stages(bench: Bench) -> list[Stage]:
    """A worker's forward pass over all of its environments."""
    count = bench.config.workers.envs_per_worker
    observations = random_observations(bench)
    state = ActorState.at_start(count, bench.layout)
    uniforms = torch.rand(count, dtype=torch.float64)
    actor = Actor(bench.workers_network())
    return [
        Stage(BARE_INFERENCE, bare_inference(bench, observations), count),
        Stage(ACT, lambda: actor.act(observations, state, uniforms), count),
    ]


def random_observations(bench: Bench) -> torch.Tensor:
    """Observations of all environments of a worker, in the memory order of the network."""
    channels, height, width = bench.layout.frame_shape
    shape = (bench.config.workers.envs_per_worker, bench.layout.frame_stack * channels, height, width)
    return torch.randint(0, 256, shape, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)


def bare_inference(bench: Bench, observations: torch.Tensor) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Logits and values: torso and heads in their own dtypes, without autocast and without drawing actions."""
    network = bench.workers_network().eval().requires_grad_(False)
    torso = channels_last(network.torso.to(bench.worker_precision))
    memory = torch.zeros(1, len(observations), bench.layout.lstm_size)
    actions_and_rewards = torch.zeros(len(observations), bench.layout.action_count + 1)  # previous ones, for an LSTM

    @torch.inference_mode()
    def infer() -> tuple[torch.Tensor, torch.Tensor]:
        pixels = observations.to(bench.worker_precision).mul_(PIXEL_SCALE)
        hidden: torch.Tensor = torso(pixels).float()
        if network.lstm is not None:
            hidden = network.lstm(torch.cat([hidden, actions_and_rewards], -1).unsqueeze(0), (memory, memory))[0][0]
        return network.policy_head(hidden), network.value_head(hidden)

    return infer


def worker_stages(bench: Bench) -> list[Stage]:
    """All work of a worker for one round of unrolls.

    The bare stage also steps all games and infers in turns, so that its caches are as cold as those of a worker. They
    are warmer in each bare loop alone.
    """
    count, steps = bench.config.workers.envs_per_worker, bench.layout.unroll_length
    rollout = make_rollout(bench.config, bench.layout, bench.workers_network(), count)
    rows = np.zeros((count, bench.layout.nbytes), np.uint8)
    games = [our_chain(bench.config.environment) for _ in range(count)]
    infer = bare_inference(bench, random_observations(bench))
    generator = np.random.default_rng(0)

    def by_turns() -> None:
        for actions in generator.integers(0, bench.layout.action_count, (steps, count, 1)):
            infer()
            for play, action in zip(games, actions, strict=True):
                play(action)

    return [
        Stage(BARE_WORKER, by_turns, count * steps),
        Stage(WORKER, lambda: rollout.collect(rows), count * steps),
    ]


def learning_stages(bench: Bench) -> list[Stage]:
    """Learning from one batch, per step of the batch, fresh or replayed."""
    learner = bench.learner()
    steps = bench.config.replay.batch_size * bench.layout.unroll_length
    cuda = bench.device.type == "cuda"

    def finished(work: Callable[[], object]) -> Callable[[], object]:
        if not cuda:
            return work

        def run() -> None:
            work()
            torch.cuda.synchronize()

        return run

    return [
        Stage(BARE_LEARNING, finished(bare_learning(bench)), steps, in_learner=True, by_wall_clock=cuda),
        Stage(UPDATE, finished(lambda: learner.update(bench.batch)), steps, in_learner=True, by_wall_clock=cuda),
    ]


def bare_learning(bench: Bench) -> Callable[[], object]:
    """Forward from prepared observations, a trivial loss, backward, and torch's own RMSprop."""
    network = channels_last(bench.network().to(bench.device))
    optimizer = torch.optim.RMSprop(network.parameters(), bench.config.optimizer.lr)
    batch, steps = bench.config.replay.batch_size, bench.layout.unroll_length + 1
    channels, height, width = bench.layout.frame_shape
    shape = (steps, batch, height, width, bench.layout.frame_stack * channels)
    observations = torch.randint(0, 256, shape, dtype=torch.uint8, device=bench.device)
    inputs = NetworkInput(
        observations=observations.permute(0, 1, 4, 2, 3),  # in the memory order of the network
        previous_actions=torch.zeros(steps, batch, dtype=torch.int64, device=bench.device),
        previous_rewards=torch.zeros(steps, batch, device=bench.device),
        starts=torch.zeros(steps, batch, dtype=torch.bool, device=bench.device),
        lstm_state=torch.zeros(batch, 2, bench.layout.lstm_size, device=bench.device),
    )

    def learn() -> None:
        output = network(inputs, last_is_bootstrap=True)
        loss = output.logits.square().mean() + output.values.square().mean()
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimizer.step()

    return learn


def weight_stages(bench: Bench) -> list[Stage]:
    """Publishing the weights after an update, and copying them before a round of unrolls."""
    learner, actor = bench.learner(), Actor(bench.workers_network())
    weights = SharedWeights(weight_count(learner.network))
    publisher = make_publisher(learner.network, weights, at_once=False)
    publisher.post(0)
    flat = torch.zeros(weight_count(learner.network))
    version = iter(range(1, 10**9))

    def copy() -> None:
        weights.copy_newer(NOT_PUBLISHED, flat)
        actor.load(flat)

    steps_per_round = bench.config.workers.envs_per_worker * bench.layout.unroll_length
    return [
        Stage(
            PUBLISH,
            lambda: publisher.post(next(version)),
            round(bench.config.agent_steps_per_update),
            in_learner=True,
        ),
        Stage(COPY, copy, steps_per_round),
    ]
