"""A restored environment continues exactly like the original one."""

import copy
from typing import Any

import numpy as np
import pytest

from option_flags import EnvironmentOptions
from wrappers.atari import AtariGame, make_atari
from wrappers.emulator import atari_games


def make(options: EnvironmentOptions, seed: int) -> AtariGame:
    env = make_atari(options, seed)
    assert isinstance(env, AtariGame)
    return env


def play(env: AtariGame, actions: list[int]) -> list[object]:
    """Everything that an agent sees while it plays the actions, with a reset after each episode."""
    seen: list[object] = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append((observation.tobytes(), reward, terminated, truncated, env.get_wrapper_attr("lives")()))
        if terminated or truncated:
            seen.append(env.reset()[0].tobytes())
    return [*seen, env.get_wrapper_attr("take_finished_games")()]


def play_until_an_episode_ends(env: AtariGame, action_count: int) -> None:
    """The caller makes the reset."""
    for action in np.random.default_rng(5).integers(0, action_count, 5000).tolist():
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            return
    raise AssertionError("no episode ended")


def assert_plain(value: object) -> None:
    if type(value) is dict:
        for key, item in value.items():
            assert type(key) is str
            assert_plain(item)
    elif type(value) is list:
        for item in value:
            assert_plain(item)
    else:
        assert type(value) in (bool, int, float, str, bytes)


def restored(options: EnvironmentOptions, state: dict[str, Any]) -> AtariGame:
    assert_plain(state)
    env = make(options, seed=123)
    env.restore(copy.deepcopy(state))
    return env


@pytest.mark.parametrize("game", ["Pong", "Breakout", "Qbert"])
@pytest.mark.parametrize("steps", [0, 137])
@pytest.mark.slow
def test_in_the_middle_of_a_life(game: str, steps: int) -> None:
    options = EnvironmentOptions(env=f"{game}NoFrameskip-v4", repeat_action_probability=0.25)
    env = make(options, seed=1)
    count = len(env.get_wrapper_attr("action_meanings"))
    actions = np.random.default_rng(2).integers(0, count, steps + 300).tolist()
    env.reset()
    play(env, actions[:steps])
    other = restored(options, env.snapshot())
    assert play(other, actions[steps:]) == play(env, actions[steps:])
    assert other.snapshot() == env.snapshot()


@pytest.mark.parametrize("game", ["Pong", "Breakout", "Qbert"])
@pytest.mark.slow
def test_between_an_episode_and_its_reset(game: str) -> None:
    options = EnvironmentOptions(env=f"{game}NoFrameskip-v4", repeat_action_probability=0.25)
    env = make(options, seed=3)
    count = len(env.get_wrapper_attr("action_meanings"))
    env.reset()
    play_until_an_episode_ends(env, count)
    other = restored(options, env.snapshot())
    np.testing.assert_array_equal(other.reset()[0], env.reset()[0])
    actions = np.random.default_rng(4).integers(0, count, 400).tolist()
    assert play(other, actions) == play(env, actions)


@pytest.mark.slow
def test_unfinished_scores_and_scores_not_taken_yet_are_restored() -> None:
    options = EnvironmentOptions(env="BreakoutNoFrameskip-v4", max_game_frames=400)
    env = make(options, seed=1)
    env.reset()
    actions = np.random.default_rng(6).integers(0, 4, 300).tolist()
    for action in actions[:250]:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    other = restored(options, env.snapshot())
    seen = play(env, actions[250:])
    assert play(other, actions[250:]) == seen
    finished = seen[-1]
    assert isinstance(finished, list)
    assert len(finished) >= 3


@pytest.mark.slow
def test_restoring_replaces_the_state_of_a_used_environment() -> None:
    options = EnvironmentOptions(env="SeaquestNoFrameskip-v4", repeat_action_probability=0.25)
    env = make(options, seed=1)
    actions = np.random.default_rng(7).integers(0, 18, 400).tolist()
    env.reset()
    play(env, actions[:50])
    state = env.snapshot()
    first = play(env, actions)
    env.restore(state)
    assert play(env, actions) == first


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(atari_games())[::3])
def test_games_of_all_kinds_can_be_played_and_restored(name: str) -> None:
    options = EnvironmentOptions(env=name, repeat_action_probability=0.25)
    env = make(options, seed=1)
    meanings = env.get_wrapper_attr("action_meanings")
    assert meanings[0] == "NOOP"
    assert getattr(env.action_space, "n", None) == len(meanings)
    observation, _ = env.reset()
    assert observation.shape == (84, 84)
    assert env.observation_space.contains(observation)

    every_action = list(range(len(meanings)))
    play(env, every_action)
    other = restored(options, env.snapshot())
    actions = np.random.default_rng(8).integers(0, len(meanings), 30).tolist()
    assert play(other, actions) == play(env, actions)
