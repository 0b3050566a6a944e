"""Unrolls that a rollout writes, compared with the same environments stepped a second time in the test."""

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import Actor, Decision
from agents.network import ActorCritic
from agents.training_batch import rebuild_stacks
from option_flags import EnvironmentOptions
from replay.unroll_layout import UnrollLayout
from tests.agents.networks import picture_network
from tests.catch import CELL, CELLS, make_catch
from workers.policies import LocalPolicy
from workers.rollout import Rollout, SeededEnvironment
from wrappers.environment import FinishedGame

OPTIONS = EnvironmentOptions(frames_stacked=3)
STEPS = 7


class CutAfterThree(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A time limit of three steps."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, _, info = self.env.step(action)
        self.steps += 1
        return observation, reward, terminated, self.steps == 3, info


def make_rollout(environments: int, lstm_size: int, time_limit: bool) -> tuple[Rollout, UnrollLayout, ActorCritic]:
    torch.manual_seed(0)
    layout = UnrollLayout(
        STEPS, 3, frame_shape=(1, CELLS * CELL, CELLS * CELL), action_sizes=(3,), lstm_size=lstm_size, feature_size=4
    )
    network = picture_network("nature", (3, CELLS * CELL, CELLS * CELL), 3, lstm_size, projected_size=4)
    torch.nn.init.orthogonal_(network.policy_head.weight)  # a policy that depends on the observation
    policy = LocalPolicy(Actor(network), layout, environments, itertools.count().__next__)
    return Rollout([make_environment(e, time_limit) for e in range(environments)], policy, layout), layout, network


def make_environment(environment_id: int, time_limit: bool) -> SeededEnvironment:
    game = make_catch(OPTIONS, environment_id)
    return SeededEnvironment(
        CutAfterThree(game) if time_limit else game, environment_id, np.random.default_rng(environment_id)
    )


def collect(rollout: Rollout, layout: UnrollLayout, environments: int) -> dict[str, NDArray[Any]]:
    rows = np.full((environments, layout.nbytes), 255, np.uint8)
    rollout.collect(rows)
    return layout.arrays(rows)


@pytest.mark.parametrize("lstm_size", [0, 8])
@pytest.mark.parametrize("time_limit", [False, True])
def test_unrolls_hold_what_the_environments_returned(lstm_size: int, time_limit: bool) -> None:
    rollout, layout, network = make_rollout(2, lstm_size, time_limit)
    shadows = [make_environment(e, time_limit).env for e in range(2)]
    seen = [np.stack([shadow.reset()[0]] * 3) for shadow in shadows]
    for version in range(3):
        unroll = collect(rollout, layout, 2)
        stacks = rebuild_stacks(torch.tensor(unroll["frames"]), torch.tensor(unroll["dones"])).numpy()
        assert unroll["weight_version"].tolist() == [version] * 2
        assert unroll["environment_id"].tolist() == [0, 1]
        for e, shadow in enumerate(shadows):
            for t in range(STEPS):
                np.testing.assert_array_equal(stacks[t, e], seen[e])
                np.testing.assert_allclose(unroll["features"][e, t], features(network, seen[e]), rtol=2e-3, atol=2e-3)
                frame, reward, terminated, truncated, _ = shadow.step(int(unroll["actions"][e, t]))
                seen[e] = np.stack([*seen[e][1:], frame])
                assert unroll["rewards"][e, t] == reward
                assert unroll["dones"][e, t] == (terminated or truncated)
                games = shadow.get_wrapper_attr("take_finished_games")()
                assert unroll["game_lengths"][e, t] == (games[0].length if games else 0)
                assert unroll["game_returns"][e, t] == (games[0].return_ if games else 0)
                assert (unroll["bootstraps"][e, t] != 0) == (truncated and not terminated)
                if truncated and not terminated and not lstm_size:
                    value = network_value(network, seen[e])
                    assert unroll["bootstraps"][e, t] == pytest.approx(value, abs=1e-5)
                if terminated or truncated:
                    seen[e] = np.stack([shadow.reset()[0]] * 3)
            np.testing.assert_array_equal(stacks[STEPS, e], seen[e])


def network_value(network: ActorCritic, observation: NDArray[np.uint8]) -> float:
    with torch.no_grad():
        features = network.features(torch.from_numpy(observation)[None])
        return float(network.value_head(features))


def features(network: ActorCritic, observation: NDArray[np.uint8]) -> NDArray[np.float16]:
    with torch.no_grad():
        seen = network.features(torch.from_numpy(observation)[None])
        stored: NDArray[np.float16] = network.project(seen)[0].numpy()
    return stored


def test_an_unroll_starts_with_the_lstm_state_at_the_end_of_the_last_one() -> None:
    rollout, layout, _ = make_rollout(2, lstm_size=8, time_limit=False)
    first, second = (collect(rollout, layout, 2) for _ in range(2))
    assert (first["first_action"] == -1).all()
    assert not first["first_lstm_state"].any()
    # Games of Catch last five steps: the unroll of seven ends in the middle of the second game.
    assert second["first_action"].tolist() == first["actions"][:, -1].tolist()
    assert second["first_reward"].tolist() == first["rewards"][:, -1].tolist()
    assert second["first_lstm_state"].any(axis=(1, 2)).all()


def test_an_unroll_at_the_start_of_an_episode_starts_with_an_empty_memory() -> None:
    """Games of Catch last five steps, so after five unrolls of seven steps the seventh game has just ended."""
    rollout, layout, _ = make_rollout(2, lstm_size=8, time_limit=False)
    *_, last, at_start = (collect(rollout, layout, 2) for _ in range(6))
    assert last["dones"][:, -1].all()
    assert at_start["first_action"].tolist() == [-1, -1]
    assert at_start["first_reward"].tolist() == [0, 0]
    assert not at_start["first_lstm_state"].any()


def test_games_that_end_in_one_step_are_stored_one_after_the_other() -> None:
    """A reset can end a second game; the next steps have room for what is left over."""

    class TwoAtOnce(gymnasium.Wrapper[Any, Any, Any, Any]):
        def take_finished_games(self) -> list[FinishedGame]:
            games = self.env.get_wrapper_attr("take_finished_games")()
            return [*games, *(FinishedGame(-9.0, 90 + number) for number in range(2) if games)]

    _, layout, network = make_rollout(1, 0, time_limit=False)
    environment = make_environment(0, False)
    environment = SeededEnvironment(TwoAtOnce(environment.env), 0, environment.uniforms)
    unroll = collect(Rollout([environment], LocalPolicy(Actor(network), layout, 1), layout), layout, 1)
    assert unroll["game_lengths"][0].tolist() == [0, 0, 0, 0, 5, 90, 91]
    assert unroll["game_returns"][0, 5:].tolist() == [-9.0, -9.0]


def test_grouping_environments_differently_changes_no_random_stream() -> None:
    """With a constant policy, actions depend on each environment's own uniform numbers only."""

    def actions(groups: list[list[int]]) -> dict[int, list[int]]:
        played: dict[int, list[int]] = {}
        for group in groups:
            _, layout, network = make_rollout(1, 0, time_limit=False)
            torch.nn.init.zeros_(network.policy_head.weight)
            rollout = Rollout(
                [make_environment(e, False) for e in group], LocalPolicy(Actor(network), layout, len(group)), layout
            )
            unroll = collect(rollout, layout, len(group))
            played |= {e: unroll["actions"][i].tolist() for i, e in enumerate(group)}
        return played

    assert actions([[0, 1, 2, 3]]) == actions([[0, 2], [1], [3]])


def test_an_unroll_has_the_oldest_weight_version_that_acted_in_it() -> None:
    class Aging(LocalPolicy):
        def result(self, group: int) -> tuple[Decision, int]:
            return super().result(group)[0], next(versions)

    versions = iter([5, 3, 4, 7, 7, 8, 9])
    _, layout, network = make_rollout(1, 0, time_limit=False)
    rollout = Rollout([make_environment(0, False)], Aging(Actor(network), layout, 1), layout)
    assert collect(rollout, layout, 1)["weight_version"].tolist() == [3]
