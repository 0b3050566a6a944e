"""Data sets of Minari as recorded games."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector.episode_buffer import EpisodeBuffer

from agents.spaces import make_unroll_layout
from evaluation.recorded_games import RecordedGame
from option_flags import Config
from options.rules import UsageError
from tests.options.words import one_line
from training.demonstrations import unrolls_of
from training.minari_games import minari_games
from wrappers.any_environment.actions import actions_for
from wrappers.make_environment import make_environment

NAME = "small/test-v0"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Minari keeps its data sets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


def keep(env: gymnasium.Env[Any, Any], seeds: tuple[int, ...], steps: int) -> None:
    """Make a data set of random games, which end after so many steps if they have not ended before."""
    buffers = []
    env.action_space.seed(0)
    for index, seed in enumerate(seeds):
        seen = [env.reset(seed=seed)[0]]
        played: list[tuple[Any, ...]] = []
        while len(played) < steps and not (played and (played[-1][2] or played[-1][3])):
            action = env.action_space.sample()
            observation, *outcome, _ = env.step(action)
            seen.append(observation)
            played.append((action, *outcome))
        actions, rewards, terminations, truncations = map(np.array, zip(*played, strict=True))
        buffers.append(
            EpisodeBuffer(
                id=index, seed=seed, observations=np.array(seen), actions=actions, rewards=rewards,
                terminations=terminations, truncations=truncations,
            )
        )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nobody is named as its author
        minari.create_dataset_from_buffers(NAME, buffer=buffers, env=env)


@pytest.mark.slow
@pytest.mark.parametrize(("env", "steps"), [("CartPole-v1", 500), ("Pendulum-v1", 200), ("Pendulum-v1", 30)])
def test_a_data_set_gives_the_unrolls_of_the_same_games_played_again(folder: Path, env: str, steps: int) -> None:
    keep(gymnasium.make(env), (5, 6), steps)
    config = Config.from_flags(
        {"env": env, "r_f_steps": 7, "network": "auto", "reward_clipping_method": "abs_one_sign"}
    )
    own, layout = config.environment, make_unroll_layout(config, make_environment)
    games = list(minari_games(NAME, own, layout))
    assert [name for name, _, _ in games] == ["episode 0", "episode 1"]
    for seed, (_, game, playback) in zip((5, 6), games, strict=True):
        assert (game.return_ is None) == (steps == 30), "games that were cut before their end have no return"
        found = unrolls_of(game, playback, layout, 0.9, False)
        again = RecordedGame(own, seed, game.actions, game.return_)
        expected = unrolls_of(again, make_environment(own, 0), layout, 0.9, False)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"env": "Pendulum-v1"}, "has vector_size 4, and --env=Pendulum-v1 3"),
        ({"env": "Acrobot-v1"}, "has vector_size 4, and --env=Acrobot-v1 6"),
        ({"env": "CartPole-v1", "skipped_frames": 2}, "with --skipped_frames=1"),
        ({"env": "PongNoFrameskip-v4"}, "is for environments of Gymnasium"),
    ],
    ids=str,
)
@pytest.mark.slow
def test_a_data_set_of_another_environment_is_refused(folder: Path, flags: dict[str, Any], sentence: str) -> None:
    keep(gymnasium.make("CartPole-v1"), (5,), 20)
    config = Config.from_flags({"network": "auto", **flags})
    with pytest.raises(UsageError) as refused:
        list(minari_games(NAME, config.environment, make_unroll_layout(config, make_environment)))
    assert sentence in one_line(refused.value)


def test_a_data_set_that_is_not_there_is_refused(folder: Path) -> None:
    config = Config.from_flags({"env": "CartPole-v1", "network": "auto"})
    with pytest.raises(UsageError, match=f"is not on this machine; minari download {NAME} would load it"):
        list(minari_games(NAME, config.environment, make_unroll_layout(config, make_environment)))


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Discrete(3, start=-1),
        gymnasium.spaces.MultiDiscrete([2, 3], start=[5, 6]),
        gymnasium.spaces.MultiBinary((2, 2)),
        gymnasium.spaces.Box(np.array([-2, 0, -np.inf], np.float32), np.array([2, 10, np.inf], np.float32)),
        gymnasium.spaces.Tuple(
            (
                gymnasium.spaces.Box(-3, 1, (2,), np.float32),
                gymnasium.spaces.Dict(b=gymnasium.spaces.Discrete(4), a=gymnasium.spaces.MultiBinary(2)),
            )
        ),
    ],
    ids=str,
)
def test_an_action_of_the_environment_is_that_of_the_agent_and_back(space: gymnasium.Space[Any]) -> None:
    actions = actions_for(space)
    space.seed(1)
    for _ in range(20):
        own = space.sample()
        agents = actions.from_environment(own)
        assert actions.space.contains(agents if actions.kind != "discrete" else int(agents))
        here, there = (
            np.asarray(gymnasium.spaces.flatten(space, action)) for action in (actions.to_environment(agents), own)
        )
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-5)
