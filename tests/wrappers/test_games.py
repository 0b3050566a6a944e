"""All Atari games, and the errors for other ids."""

import gymnasium
import pytest

from option_flags import Config, EnvironmentOptions
from options.rules import UsageError
from wrappers.atari import ID_ENDING, atari_ids, check_atari, make_atari
from wrappers.emulator import Emulator


def test_all_games_of_ale_have_an_id() -> None:
    assert len(atari_ids()) == 102
    assert {name for name in gymnasium.registry if name.endswith(ID_ENDING)} <= set(atari_ids())
    assert {"PongNoFrameskip-v4", "BreakoutNoFrameskip-v4", "QbertNoFrameskip-v4"} <= set(atari_ids())


def test_options_reach_the_emulator() -> None:
    ale = make_atari(EnvironmentOptions(max_game_frames=1234), seed=0).get_wrapper_attr("ale")
    assert ale.getInt("max_num_frames_per_episode") == 1234
    assert ale.getFloat("repeat_action_probability") == 0  # ALE's default is 0.25


def test_a_game_that_ends_at_exactly_the_frame_limit_is_terminated_and_not_truncated() -> None:
    def play(limit: int) -> tuple[int, bool, bool]:
        emulator = Emulator("space_invaders", 0, grayscale=True, max_game_frames=limit)
        emulator.reset()
        frames, terminated, truncated = 0, False, False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = emulator.step(0)
            frames += 1
        return frames, terminated, truncated

    length, *_ = play(limit=20_000)
    assert play(length) == (length, True, False)
    assert play(length - 1) == (length - 1, False, True)


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
        ("ALE/Breakout-v5", "the closest: BreakoutNoFrameskip-v4)"),
        ("PongDeterministic-v4", "PongNoFrameskip-v4"),
        ("XyzzyxyzzyNoFrameskip-v4", "such as PongNoFrameskip-v4"),
    ],
)
def test_an_unknown_game_is_rejected_with_the_closest_ones(name: str, suggestion: str) -> None:
    options = Config.from_flags({"env": name}).environment
    with pytest.raises(UsageError) as raised:
        check_atari(options)
    message = str(raised.value)
    assert "--env" in message
    assert suggestion in message
    assert name in message
    assert message.count(".") == 1
    with pytest.raises(UsageError):
        make_atari(options, seed=0)


def test_a_registered_game_that_is_not_of_ale_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ChessNoFrameskip-v4"
    layout = gymnasium.envs.registration.EnvSpec(name, entry_point="chess:Chess")
    monkeypatch.setitem(gymnasium.registry, name, layout)
    with pytest.raises(UsageError, match="--env"):
        check_atari(EnvironmentOptions(env=name))
