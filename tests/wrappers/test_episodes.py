"""Starts and ends of games and episodes, with scripted games."""

from itertools import pairwise

import gymnasium
import pytest

from tests.wrappers.scripted_game import Moment, ScriptedGame
from wrappers.atari import EpisodicLife, FireOnReset, NoopStart, ScoreKeeper, StickyActions
from wrappers.emulator import Frame
from wrappers.environment import FinishedGame

ENDED = Moment(lives=0, terminated=True)
CUT_OFF = Moment(truncated=True)


def ends(env: gymnasium.Env[Frame, int], steps: int, action: int = 7) -> list[tuple[bool, bool]]:
    return [env.step(action)[2:4] for _ in range(steps)]


def test_a_lost_life_ends_the_episode_and_the_game_continues() -> None:
    game = ScriptedGame([Moment(3), Moment(2), Moment(2), Moment(2), ENDED])
    env = EpisodicLife(game)
    env.reset()
    assert ends(env, 2) == [(False, False), (True, False)]
    observation, _ = env.reset()
    assert game.log == ["reset", 7, 7, 0]
    assert observation.item() == 4
    assert ends(env, 2) == [(False, False), (True, False)]
    env.reset()
    assert game.log[-2:] == [7, "reset"]


def test_lives_may_rise_and_a_counter_at_zero_does_not_end_the_episode() -> None:
    env = EpisodicLife(ScriptedGame([Moment(1), Moment(2), Moment(1), Moment(0), Moment(0), ENDED], lives=1))
    env.reset()
    assert [terminated for terminated, _ in ends(env, 6)] == [False, False, True, False, False, True]


@pytest.mark.parametrize(("lives", "terminated"), [(3, False), (2, True), (0, False)])
def test_a_life_lost_at_the_time_limit_ends_the_episode_and_the_game(lives: int, terminated: bool) -> None:
    game = ScriptedGame([Moment(lives, truncated=True)])
    env = EpisodicLife(game)
    env.reset()
    assert ends(env, 1) == [(terminated, True)]
    env.reset()
    assert game.log == ["reset", 7, "reset"], "a new game, not the next life"


@pytest.mark.parametrize("last", [ENDED, CUT_OFF])
def test_a_game_that_ends_in_the_step_after_a_lost_life_is_reset(last: Moment) -> None:
    game = ScriptedGame([Moment(2), last], [Moment(2), Moment(2)])
    env = EpisodicLife(game)
    env.reset()
    env.step(7)
    env.reset()
    assert game.log == ["reset", 7, 0, "reset"]
    assert ends(env, 1) == [(True, False)]  # lives are counted from the new game's 3


def test_a_reset_before_the_end_or_with_a_seed_starts_a_new_game() -> None:
    game = ScriptedGame([Moment(3), Moment(2)])
    env = EpisodicLife(game)
    env.reset()
    env.step(7)
    env.reset()
    ends(env, 2)
    env.reset(seed=1)
    assert game.log == ["reset", 7, "reset", 7, 7, "reset"]


def test_fire_starts_every_game_and_every_life() -> None:
    game = ScriptedGame([Moment(3), Moment(2), Moment(2), Moment(2), ENDED])
    env = FireOnReset(EpisodicLife(game))
    assert env.reset()[0].item() == 2
    env.step(7)
    env.reset()
    env.step(7)
    env.reset()
    assert game.log == ["reset", 1, 7, 0, 1, 7, "reset", 1]


@pytest.mark.parametrize("last", [ENDED, CUT_OFF])
def test_a_game_that_ends_at_fire_is_reset_and_fired_again(last: Moment) -> None:
    game = ScriptedGame([last], [Moment(), Moment()])
    env = FireOnReset(EpisodicLife(game))
    assert env.reset()[0].item() == 4
    assert game.log == ["reset", 1, "reset", 1]
    assert ends(env, 1) == [(False, False)]


def test_after_a_life_lost_at_fire_the_next_life_is_fired() -> None:
    game = ScriptedGame([Moment(2), Moment(2), Moment(2)])
    FireOnReset(EpisodicLife(game)).reset()
    assert game.log == ["reset", 1, 0, 1]


def test_a_game_that_always_ends_at_fire_is_reset_a_last_time_without_fire() -> None:
    game = ScriptedGame([ENDED])
    assert FireOnReset(game).reset()[0].item() == len(game.log)
    assert game.log == ["reset", 1, "reset", 1, "reset", 1, "reset"]


def test_scores_are_of_complete_games_and_include_the_steps_of_resets() -> None:
    first = [Moment(reward=10), Moment(2, reward=-1), Moment(2, reward=20), Moment(2, reward=5), Moment(0, 2.5, True)]
    game = ScriptedGame(first, [Moment(1, reward=7, truncated=True)], [Moment()])
    scores = ScoreKeeper(game)
    env = FireOnReset(EpisodicLife(scores))
    env.reset()
    env.step(7)
    env.reset()
    assert scores.take_finished_games() == []
    env.step(7)
    env.reset()  # the second game is cut off at its FIRE
    assert env.get_wrapper_attr("take_finished_games")() == [FinishedGame(36.5, 5), FinishedGame(7.0, 1)]
    assert scores.take_finished_games() == []


def test_a_game_reset_before_its_end_has_no_score() -> None:
    scores = ScoreKeeper(ScriptedGame([Moment(reward=100)], [Moment(0, 3, True)]))
    scores.reset()
    scores.step(7)
    scores.reset()
    scores.step(7)
    assert scores.take_finished_games() == [FinishedGame(3.0, 1)]


def test_starts_have_every_number_of_noop_frames_up_to_the_maximum() -> None:
    game = ScriptedGame([Moment()] * 4)
    env = NoopStart(game, max_noops=4)
    env.reset(seed=0)
    waits = set()
    for _ in range(100):
        game.log.clear()
        env.reset()
        assert game.log[0] == "reset"
        assert set(game.log[1:]) == {0}
        waits.add(len(game.log) - 1)
    assert waits == {1, 2, 3, 4}


def test_a_game_that_ends_during_the_noop_frames_is_reset_once_more() -> None:
    game = ScriptedGame([ENDED])
    observation, _ = NoopStart(game, max_noops=4).reset()
    assert game.log == ["reset", 0, "reset"]
    assert observation.item() == 3


def test_sticky_actions_repeat_with_the_given_probability() -> None:
    game = ScriptedGame([Moment()] * 4000)
    env = StickyActions(game, probability=0.25)
    env.reset(seed=0)
    for action in range(1, 4001):
        env.step(action)
    played = game.log[1:]
    repeated = [played[0] == 0] + [now == before for before, now in pairwise(played)]
    assert all(now == action or sticks for action, (now, sticks) in enumerate(zip(played, repeated, strict=True), 1))
    assert 900 < sum(repeated) < 1100


def test_sticky_actions_of_a_new_game_start_with_noop() -> None:
    game = ScriptedGame([Moment()] * 2)
    env = StickyActions(game, probability=0.5)
    env.reset(seed=0)
    first_actions = set()
    for _ in range(40):
        env.step(7)
        first_actions.add(game.log[-1])
        env.step(5)
        env.reset()
    assert first_actions == {0, 7}, "the action before a game is NOOP, never the last one of the previous game"
