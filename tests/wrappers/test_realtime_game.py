"""A game that is played frame by frame, compared with the same game in agent steps."""

import dataclasses

import numpy as np
import pytest

from option_flags import EnvironmentOptions
from tests.wrappers.scripted_game import Moment, ScriptedGame
from wrappers.atari import RealtimeGame, ScoreKeeper, make_atari

NOOP, FIRE, RIGHT = 0, 1, 2


@pytest.mark.parametrize("noops", [0, 30])
@pytest.mark.parametrize("game", ["Pong", "Breakout", "MsPacman"])
@pytest.mark.parametrize("changes", [{}, {"grayscaling_frames": False}, {"frame_scale_resolution": "210,160"}])
def test_the_frames_are_those_of_agent_steps(game: str, noops: int, changes: dict[str, object]) -> None:
    """With each action held for four frames. FIRE is pressed for the first four where the game has it."""
    turns = EnvironmentOptions(env=f"{game}NoFrameskip-v4", noop_threshold=noops, **changes)  # type: ignore[arg-type]
    first, second = make_atari(turns, 1), make_atari(dataclasses.replace(turns, interaction="realtime"), 1)
    first.reset(seed=7)
    second.reset(seed=7)
    assert second.observation_space == first.observation_space
    look = second.get_wrapper_attr("look")
    if "FIRE" in second.get_wrapper_attr("action_meanings"):
        pressed = [second.step(RIGHT)[4]["pressed"] for _ in range(4)]
        assert pressed == [FIRE] * 4
    steps = 0
    for action in np.random.default_rng(2).integers(0, 3, 25).tolist():
        observation, reward, life_lost, _, _ = first.step(action)
        rewards = [float(second.step(action)[1]) for _ in range(4)]
        if life_lost:
            break
        np.testing.assert_array_equal(look(), observation)
        assert np.sign(sum(rewards)) == reward
        steps += 1
    assert steps > 5


def make_scripted(*moments: Moment, **options: object) -> tuple[RealtimeGame, list[str | int]]:
    scripted = ScriptedGame([*moments, *[Moment(moments[-1].lives)] * 20])
    chosen = EnvironmentOptions(skipped_frames=2, frame_scale_resolution="1,1", **options)  # type: ignore[arg-type]
    return RealtimeGame(ScoreKeeper(scripted, 2), chosen), scripted.log


@pytest.mark.parametrize(("episodic_life", "fire_on_life_loss"), [(True, False), (False, True), (False, False)])
def test_a_lost_life_ends_the_episode_and_fire_is_pressed_while_the_game_goes_on(
    episodic_life: bool, fire_on_life_loss: bool
) -> None:
    env, log = make_scripted(
        Moment(3), Moment(3), Moment(2), episodic_life=episodic_life, fire_on_life_loss=fire_on_life_loss
    )
    env.reset()
    ends = [env.step(RIGHT)[2] for _ in range(3)]
    assert ends == [False, False, episodic_life]
    if episodic_life:
        env.reset()  # plays nothing
    for _ in range(5):
        assert not env.step(RIGHT)[2]
    again = [NOOP, NOOP, FIRE, FIRE, RIGHT] if episodic_life or fire_on_life_loss else [RIGHT] * 5
    assert log == ["reset", FIRE, FIRE, RIGHT, *again]
    env.reset(seed=1)
    assert log[-1] == "reset"


@pytest.mark.parametrize("ending", [Moment(0, terminated=True), Moment(2, truncated=True)])
def test_a_game_that_is_over_starts_anew(ending: Moment) -> None:
    env, log = make_scripted(Moment(3), ending)
    env.reset()
    env.step(RIGHT)
    _, _, terminated, truncated, _ = env.step(RIGHT)
    assert (terminated, truncated) == (ending.terminated or ending.lives > 0, ending.truncated)
    env.reset()
    assert log == ["reset", FIRE, FIRE, "reset"]
    assert env.get_wrapper_attr("take_finished_games")()[0].length == 1, "two frames are one step"
