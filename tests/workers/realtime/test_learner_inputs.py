"""The learner sees what the policy saw: recomputed from stored unrolls, the network's outputs are those of the play."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from agents.acting import Actor, Decision
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from agents.training_batch import make_training_batch
from option_flags import Config, EnvironmentOptions
from replay.mix import Batch
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.agents.networks import picture_network
from tests.workers.realtime.fake_inference import FakeSession
from tests.workers.realtime.numbered_frames import OPTIONS, Ending, make_numbered
from tests.wrappers.test_ticks import RECORDER, as_played
from workers.policy_inputs import PolicyInputs
from workers.realtime.player import ClockedGame
from workers.realtime.unrolls import RealtimeUnrolls
from workers.rollout import SeededEnvironment
from wrappers.make_environment import make_environment

GAMES = ([Ending(23), Ending(9, cut=True)], [Ending(40)])


def make_layout(lstm_size: int) -> UnrollLayout:
    return UnrollLayout(
        5, 3, frame_shape=(1, 36, 36), action_sizes=(3,), lstm_size=lstm_size, delayed_actions=True, real_time=True
    )


class Playing(FakeSession):
    """A session whose decisions are made by a network."""

    def use(self, actor: Actor) -> None:
        decisions: dict[int, Decision] = {}
        wait_for_answer = self.inference.request

        def request(process: int, inputs: PolicyInputs) -> None:
            decision = actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)
            decisions[process] = Decision(*(part.clone() for part in decision))
            wait_for_answer(process, inputs)

        self.inference.request = request  # type: ignore[method-assign]
        self.inference.result = lambda process: (decisions[process], 0)  # type: ignore[method-assign]


def numbered_games(options: EnvironmentOptions) -> list[SeededEnvironment]:
    return [
        SeededEnvironment(make_numbered(*endings, options=options), e, np.random.default_rng(e))
        for e, endings in enumerate(GAMES)
    ]


def play(
    layout: UnrollLayout,
    actor: Actor,
    processes: int,
    options: EnvironmentOptions,
    environments: Sequence[SeededEnvironment],
) -> list[Rows]:
    games = [ClockedGame(each.env, each.uniforms, options) for each in environments]
    for game in games:
        game.start()
    unrolls = RealtimeUnrolls(layout, options, environments)
    times = np.random.default_rng(3)
    session = Playing(games, layout, unrolls, lambda process: float(times.uniform(0.2, 0.9)), processes, "mean")
    session.use(actor)
    delivered: list[Rows] = []
    while len(delivered) < 6:
        session.play_on()
        if (rows := unrolls.take()) is not None:
            delivered.append(rows)
    return delivered


@pytest.mark.parametrize(("lstm_size", "processes"), [(0, 3), (8, 1)])
def test_the_network_computes_the_same_from_the_stored_unrolls(lstm_size: int, processes: int) -> None:
    torch.manual_seed(0)
    layout = make_layout(lstm_size)
    network = picture_network("nature", (3, 36, 36), 3, lstm_size)
    torch.nn.init.orthogonal_(network.policy_head.weight)  # a policy that depends on what it sees
    options = dataclasses.replace(OPTIONS, frame_scale_resolution="36,36")
    delivered = play(layout, Actor(network), processes, options, numbered_games(options))
    rewards = np.concatenate([layout.array(rows, "seen_rewards") for rows in delivered])
    dones = np.concatenate([layout.array(rows, "dones") for rows in delivered])
    assert rewards.any() and dones.any()
    check_outputs(network, layout, delivered)


@pytest.mark.parametrize("space", ["discrete", "box", "product"])
def test_so_it_does_for_numbers_and_actions_of_other_kinds(space: str) -> None:
    torch.manual_seed(0)
    flags = {"interaction": "realtime", "env_kwargs": f'{{"space": "{space}"}}', "r_f_steps": 5}
    config = Config.from_flags({"env": RECORDER, "network": "mlp", **flags})
    layout = make_unroll_layout(config, make_environment)
    network = ActorCritic(config.network, layout, torch.float32)
    environments = [
        SeededEnvironment(make_environment(config.environment, e), e, np.random.default_rng(e)) for e in range(2)
    ]
    delivered = play(layout, Actor(network), 2, config.environment, environments)
    check_outputs(network, layout, delivered)
    fields = layout.arrays(delivered[0])
    played = environments[0].env.unwrapped.get_wrapper_attr("env").unwrapped.actions
    valid = fields["valid"][0].astype(bool)
    assert valid.any() and fields["rewards"][0][valid].all()
    for action in fields["actions"][0][valid]:
        kept = np.clip(action, -1, 1) if space == "box" else action
        assert any(np.allclose(as_played(space, kept), frame) for frame in played)
    assert sum(layout.array(rows, "dones")[0].sum() for rows in delivered) > 0
    assert any(layout.array(rows, "game_returns")[0].any() for rows in delivered)


def check_outputs(network: ActorCritic, layout: UnrollLayout, delivered: Sequence[Rows]) -> None:
    for rows in delivered:
        batch = Batch(torch.from_numpy(rows), np.ones(2, bool))
        unrolls = make_training_batch(batch, layout, 0.99, torch.device("cpu"))
        with torch.no_grad():
            logits = network(unrolls.inputs).logits[:-1]
        torch.testing.assert_close(logits, unrolls.behaviour_logits, atol=1e-5, rtol=1e-4)
