"""The first episode of an environment is cut at a random step, the later ones are whole, and only those are counted."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from options.rules import UsageError
from tests.wrappers.hand_written import NEVER, Scripted, options_of
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.make_environment import check_environment, make_environment

LIMIT = 10


def cut_environment(seed: int, ends: dict[int, tuple[bool, bool]]) -> AnyEnvironment:
    scripted = Scripted(gymnasium.spaces.Box(0, 1, (2,), np.float32), rewards=[1.0], ends=ends)
    scripted.spec = EnvSpec("Scripted-v0", max_episode_steps=LIMIT)  # which alone ends nothing
    env = AnyEnvironment(scripted, options_of(), 0)
    env.cut_first_episode(np.random.default_rng(seed))
    return env


def episodes(env: AnyEnvironment, count: int) -> list[tuple[int, bool, bool]]:
    """The length and the end of each episode."""
    found = []
    for _ in range(count):
        env.reset()
        for length in range(1, NEVER):
            *_, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                found.append((length, terminated, truncated))
                break
    return found


def test_first_episodes_end_at_every_step_up_to_the_limit_and_later_ones_are_whole() -> None:
    first = set()
    for seed in range(200):
        env = cut_environment(seed, {LIMIT: (False, True)})
        length, terminated, truncated = episodes(env, 1)[0]
        assert (terminated, truncated) == (False, True)
        assert episodes(env, 2) == [(LIMIT, False, True)] * 2
        games = env.take_finished_games()
        whole = [(LIMIT, LIMIT)] * 2
        assert [(game.return_, game.length) for game in games] == ([(LIMIT, LIMIT)] if length == LIMIT else []) + whole
        first.add(length)
    assert first == set(range(1, LIMIT + 1))


def test_a_game_that_ends_before_the_cut_is_a_whole_one_and_the_next_is_not_cut() -> None:
    ends = {2: (True, False)}
    for seed in range(50):
        env = cut_environment(seed, ends)
        first, *later = episodes(env, 10)
        assert later == [(2, True, False)] * 9
        cut = first == (1, False, True)
        assert cut or first[:2] == (2, True)
        assert len(env.take_finished_games()) == (9 if cut else 10)


@pytest.mark.parametrize(
    ("flags", "limit"),
    [
        ({}, 500),
        ({"skipped_frames": 3}, 167),
        ({"max_game_frames": 100}, 100),
        ({"env_kwargs": '{"max_episode_steps": 70}'}, 70),
    ],
)
def test_the_time_limit_is_that_of_the_environment_or_of_the_options(flags: dict[str, Any], limit: int) -> None:
    assert make_environment(options_of("CartPole-v1", **flags), 0).get_wrapper_attr("time_limit") == limit


def test_it_is_refused_for_games_with_a_fixed_chain_of_wrappers() -> None:
    with pytest.raises(UsageError, match="--spread_starts has no meaning for --env=PongNoFrameskip-v4"):
        check_environment(options_of("PongNoFrameskip-v4", spread_starts=True))
