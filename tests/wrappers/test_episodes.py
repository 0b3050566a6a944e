"""Starts and ends of games and episodes, and rewards, with scripted games."""

import math

import pytest

from option_flags import EnvironmentOptions
from tests.wrappers.scripted_game import Moment, ScriptedGame, as_agent_sees
from wrappers.atari import AtariGame, make_atari
from wrappers.environment import FinishedGame

ENDED = Moment(lives=0, terminated=True)
CUT_OFF = Moment(truncated=True)


def ends(env: AtariGame, steps: int, action: int = 7) -> list[tuple[bool, bool]]:
    return [env.step(action)[2:4] for _ in range(steps)]


def pixel(env: AtariGame) -> int:
    return int(env.reset()[0].item())


def finished(env: AtariGame) -> list[FinishedGame]:
    games: list[FinishedGame] = env.get_wrapper_attr("take_finished_games")()
    return games


def test_a_lost_life_ends_the_episode_and_the_game_continues() -> None:
    game = ScriptedGame([Moment(3), Moment(2), Moment(2), Moment(2), ENDED])
    env = as_agent_sees(game, episodic_life=True)
    env.reset()
    assert ends(env, 2) == [(False, False), (True, False)]
    assert pixel(env) == 4
    assert game.log == ["reset", 7, 7, 0]
    assert ends(env, 2) == [(False, False), (True, False)]
    env.reset()
    assert game.log[-2:] == [7, "reset"]


def test_lives_may_rise_and_a_counter_at_zero_does_not_end_the_episode() -> None:
    game = ScriptedGame([Moment(1), Moment(2), Moment(1), Moment(0), Moment(0), ENDED], lives=1)
    env = as_agent_sees(game, episodic_life=True)
    env.reset()
    assert [terminated for terminated, _ in ends(env, 6)] == [False, False, True, False, False, True]


@pytest.mark.parametrize(("lives", "terminated"), [(3, False), (2, True), (0, False)])
def test_a_life_lost_at_the_time_limit_ends_the_episode_and_the_game(lives: int, terminated: bool) -> None:
    game = ScriptedGame([Moment(lives, truncated=True)])
    env = as_agent_sees(game, episodic_life=True)
    env.reset()
    assert ends(env, 1) == [(terminated, True)]
    env.reset()
    assert game.log == ["reset", 7, "reset"], "a new game, not the next life"


@pytest.mark.parametrize("last", [ENDED, CUT_OFF])
def test_a_game_that_ends_in_the_step_after_a_lost_life_is_reset(last: Moment) -> None:
    game = ScriptedGame([Moment(2), last], [Moment(2), Moment(2)])
    env = as_agent_sees(game, episodic_life=True)
    env.reset()
    env.step(7)
    env.reset()
    assert game.log == ["reset", 7, 0, "reset"]
    assert ends(env, 1) == [(True, False)]  # lives are counted from the new game's 3


def test_a_reset_before_the_end_or_with_a_seed_starts_a_new_game() -> None:
    game = ScriptedGame([Moment(3), Moment(2)])
    env = as_agent_sees(game, episodic_life=True)
    env.reset()
    env.step(7)
    env.reset()
    ends(env, 2)
    env.reset(seed=1)
    assert game.log == ["reset", 7, "reset", 7, 7, "reset"]


def test_fire_starts_every_game_and_every_life() -> None:
    game = ScriptedGame([Moment(3), Moment(2), Moment(2), Moment(2), ENDED])
    env = as_agent_sees(game, episodic_life=True, fire_on_reset=True)
    assert pixel(env) == 2
    env.step(7)
    env.reset()
    env.step(7)
    env.reset()
    assert game.log == ["reset", 1, 7, 0, 1, 7, "reset", 1]


@pytest.mark.parametrize("last", [ENDED, CUT_OFF])
def test_a_game_that_ends_at_fire_is_reset_and_fired_again(last: Moment) -> None:
    game = ScriptedGame([last], [Moment(), Moment()])
    env = as_agent_sees(game, episodic_life=True, fire_on_reset=True)
    assert pixel(env) == 4
    assert game.log == ["reset", 1, "reset", 1]
    assert ends(env, 1) == [(False, False)]


def test_after_a_life_lost_at_fire_the_next_life_is_fired() -> None:
    game = ScriptedGame([Moment(2), Moment(2), Moment(2)])
    as_agent_sees(game, episodic_life=True, fire_on_reset=True).reset()
    assert game.log == ["reset", 1, 0, 1]


def test_a_game_that_always_ends_at_fire_is_reset_a_last_time_without_fire() -> None:
    game = ScriptedGame([ENDED])
    assert pixel(as_agent_sees(game, fire_on_reset=True)) == len(game.log)
    assert game.log == ["reset", 1, "reset", 1, "reset", 1, "reset"]


@pytest.mark.parametrize(
    ("moments", "steps", "pressed", "rewards"),
    [
        ([Moment(3), Moment(2), Moment(2), Moment(2), Moment(2)], 3, [7, 7, 0, 1, 7], [1, 3, 1]),
        ([Moment(3), Moment(2), ENDED], 2, [7, 7, 0], [1, 2]),
        ([Moment(1), Moment(1), Moment(1), Moment(0), Moment(0)], 3, [7, 0, 1, 7, 7], [3, 1, 1]),
    ],
)
def test_in_tests_fire_follows_a_lost_life_but_no_end_of_a_game(
    moments: list[Moment], steps: int, pressed: list[int], rewards: list[float]
) -> None:
    """Nor a counter that falls to 0."""
    game = ScriptedGame([Moment(), *(moment._replace(reward=1.0) for moment in moments)])
    env = as_agent_sees(game, fire_on_reset=True, fire_on_life_loss=True)
    env.reset()
    assert [env.step(7)[1] for _ in range(steps)] == rewards
    assert game.log == ["reset", 1, *pressed]


def test_scores_are_of_complete_games_and_include_the_steps_of_resets() -> None:
    first = [Moment(reward=10), Moment(2, reward=-1), Moment(2, reward=20), Moment(2, reward=5), Moment(0, 2.5, True)]
    game = ScriptedGame(first, [Moment(1, reward=7, truncated=True)], [Moment()])
    env = as_agent_sees(game, episodic_life=True, fire_on_reset=True, reward_clipping_method="abs_one_sign")
    env.reset()
    env.step(7)
    env.reset()
    assert finished(env) == []
    env.step(7)
    env.reset()  # the second game is cut off at its FIRE
    assert finished(env) == [FinishedGame(36.5, 5), FinishedGame(7.0, 1)]
    assert finished(env) == []


def test_a_game_reset_before_its_end_has_no_score() -> None:
    env = as_agent_sees(ScriptedGame([Moment(reward=100)], [Moment(0, 3, True)]))
    for _ in range(2):
        env.reset()
        env.step(7)
    assert finished(env) == [FinishedGame(3.0, 1)]


@pytest.mark.parametrize(
    ("method", "clipped"),
    [
        ("abs_one_sign", {-7: -1, -0.5: -1, 0: 0, 0.25: 1, 400: 1}),
        ("abs_one_clamp", {-7: -1, -0.5: -0.5, 0: 0, 0.25: 0.25, 400: 1}),
        ("soft_asymmetric", {-5: -1.5 * math.tanh(1), 0: 0, 5: 5 * math.tanh(1), 400: 5, -400: -1.5}),
    ],
)
def test_rewards_are_clipped(method: str, clipped: dict[float, float]) -> None:
    env = as_agent_sees(ScriptedGame([Moment(reward=reward) for reward in clipped]), reward_clipping_method=method)
    env.reset()
    assert [env.step(0)[1] for _ in clipped] == pytest.approx(list(clipped.values()))


def test_starts_have_every_number_of_noop_frames_up_to_the_maximum() -> None:
    env = make_atari(EnvironmentOptions(noop_threshold=4, fire_on_reset=False), seed=0)
    frames = env.get_wrapper_attr("ale").getEpisodeFrameNumber
    waits = set()
    for _ in range(60):
        env.reset()
        waits.add(frames())
    assert waits == {1, 2, 3, 4}
