"""All of the games, and what is said about ids that are none."""

import gymnasium
import pytest

from option_flags import EnvironmentOptions, UsageError
from wrappers.atari import atari_ids, check_atari, make_atari


def test_there_are_all_sixty_two_games() -> None:
    assert len(atari_ids()) == 62
    assert {"PongNoFrameskip-v4", "BreakoutNoFrameskip-v4", "QbertNoFrameskip-v4"} <= set(atari_ids())


@pytest.mark.parametrize("name", atari_ids())
def test_every_game_can_be_played(name: str) -> None:
    env = make_atari(EnvironmentOptions(env=name, noop_threshold=3), seed=0)
    meanings = env.get_wrapper_attr("action_meanings")
    assert meanings[0] == "NOOP"
    assert getattr(env.action_space, "n", None) == len(meanings)
    observation, _ = env.reset()
    assert observation.shape == (4, 1, 84, 84)
    for action in range(len(meanings)):
        observation, _, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(observation)
        assert (terminated, truncated) == (False, False)


def test_options_reach_the_emulator() -> None:
    ale = make_atari(EnvironmentOptions(max_game_frames=1234), seed=0).get_wrapper_attr("ale")
    assert ale.getInt("max_num_frames_per_episode") == 1234
    assert ale.getFloat("repeat_action_probability") == 0  # ALE's default is 0.25


def test_the_screen_can_be_watched() -> None:
    env = make_atari(EnvironmentOptions(), seed=0)
    env.reset()
    picture = env.render()
    assert env.render_mode == "rgb_array"
    assert getattr(picture, "shape", None) == (210, 160, 3)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("PongngNoFrameskip-v4", "PongNoFrameskip-v4"),
        ("SpaceinvaderNoFrameskip-v4", "SpaceInvadersNoFrameskip-v4"),
        ("XyzzyxyzzyNoFrameskip-v4", "such as PongNoFrameskip-v4"),
    ],
)
def test_an_unknown_game_is_refused_with_the_closest_ones(name: str, suggestion: str) -> None:
    options = EnvironmentOptions(env=name)
    with pytest.raises(UsageError) as raised:
        check_atari(options)
    message = str(raised.value)
    assert "--env" in message
    assert suggestion in message
    assert name in message
    assert message.count(".") == 1
    with pytest.raises(UsageError):
        make_atari(options, seed=0)


def test_a_registered_game_that_is_not_of_ale_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ChessNoFrameskip-v4"
    spec = gymnasium.envs.registration.EnvSpec(name, entry_point="chess:Chess")
    monkeypatch.setitem(gymnasium.registry, name, spec)
    with pytest.raises(UsageError, match="--env"):
        check_atari(EnvironmentOptions(env=name))
