"""All Atari games, and the errors for other ids."""

from typing import Any

import gymnasium
import pytest

from option_flags import Config, EnvironmentOptions
from options.rules import UsageError
from wrappers.atari import make_atari
from wrappers.emulator import FIRE, ID_ENDING, NOOP, Emulator, atari_games, check_atari


def test_all_games_of_ale_have_an_id() -> None:
    assert len(atari_games()) == 102
    assert {name for name in gymnasium.registry if name.endswith(ID_ENDING)} <= set(atari_games())
    assert {"PongNoFrameskip-v4", "BreakoutNoFrameskip-v4", "QbertNoFrameskip-v4"} <= set(atari_games())


def test_options_reach_the_emulator() -> None:
    ale = make_atari(EnvironmentOptions(max_game_frames=1234), seed=0).get_wrapper_attr("ale")
    assert ale.getInt("max_num_frames_per_episode") == 1234
    assert ale.getFloat("repeat_action_probability") == 0  # ALE's default is 0.25


ALL_ACTIONS = (
    *("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT", "UPFIRE"),
    *("RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"),
)


@pytest.mark.parametrize("game", ["Pong", "Freeway", "Phoenix", "Boxing"])
@pytest.mark.parametrize("interaction", ["turns", "sequential", "realtime"])
def test_the_full_action_space_has_the_actions_of_every_game(game: str, interaction: str) -> None:
    options = EnvironmentOptions(env=f"{game}NoFrameskip-v4", full_action_space=True, interaction=interaction)
    env = make_atari(options, seed=0)
    assert isinstance(env.action_space, gymnasium.spaces.Discrete) and env.action_space.n == 18
    assert env.get_wrapper_attr("action_meanings") == ALL_ACTIONS
    assert ALL_ACTIONS[NOOP] == "NOOP" and ALL_ACTIONS[FIRE] == "FIRE"


@pytest.mark.parametrize(("game", "pressed"), [("Breakout", True), ("Freeway", False)])
@pytest.mark.parametrize("fire_on_reset", [True, False])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.slow
def test_fire_is_pressed_at_the_start_of_games_that_may_wait_for_it(
    game: str, pressed: bool, fire_on_reset: bool, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with all actions: in the full set, FIRE is action 1 of the games without a fire button too."""
    played: list[int] = []
    step = Emulator.step

    def logged(self: Emulator, action: int) -> Any:
        played.append(action)
        return step(self, action)

    monkeypatch.setattr(Emulator, "step", logged)
    for life_loss in (False, True):
        options = EnvironmentOptions(
            env=f"{game}NoFrameskip-v4", noop_threshold=0, episodic_life=False, fire_on_life_loss=life_loss,
            fire_on_reset=fire_on_reset, full_action_space=full, max_game_frames=2_000,
        )  # fmt: skip
        env = make_atari(options, seed=0)
        env.reset()
        assert played == ([FIRE] * 4 if pressed and fire_on_reset else [])
        while not any(env.step(NOOP)[2:4]):
            pass
        again = pressed and fire_on_reset and life_loss
        assert (FIRE in played[4:]) == again
        played.clear()


@pytest.mark.slow
def test_a_game_that_ends_at_exactly_the_frame_limit_is_terminated_and_not_truncated() -> None:
    def play(limit: int) -> tuple[int, bool, bool]:
        options = EnvironmentOptions(env="SpaceInvadersNoFrameskip-v4", noop_threshold=0, max_game_frames=limit)
        emulator = Emulator(options, 0)
        emulator.reset()
        frames, terminated, truncated = 0, False, False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = emulator.step(0)
            frames += 1
        return frames, terminated, truncated

    length, *_ = play(limit=20_000)
    assert play(length) == (length, True, False)
    assert play(length - 1) == (length - 1, False, True)


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
