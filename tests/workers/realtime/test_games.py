import dataclasses

import numpy as np
import pytest

from tests.workers.realtime.numbered_frames import OPTIONS, Ending, emulator_of, make_numbered
from workers.realtime.player import ClockedGame, PlayedFrame
from wrappers.timeline import Effect

UP, DOWN = 1, 2


def make_game(*endings: Ending, idle_action: str = "noop") -> tuple[ClockedGame, list[int]]:
    """A game that has started, and the list of the actions that it plays."""
    options = dataclasses.replace(OPTIONS, skipped_frames=3, idle_action=idle_action)
    env = make_numbered(*endings, options=options)
    game = ClockedGame(env, np.random.default_rng(0), options)
    game.start()
    return game, emulator_of(env).actions


def play(game: ClockedGame, frames: int) -> list[PlayedFrame]:
    return [game.play() for _ in range(frames)]


@pytest.mark.parametrize(("idle_action", "after"), [("noop", 0), ("repeat", UP)])
def test_an_action_is_held_and_then_the_idle_action_is_played(idle_action: str, after: int) -> None:
    game, actions = make_game(Ending(100), idle_action=idle_action)
    frames = play(game, 2)
    game.timeline.take_effect(Effect(0, UP, seen=0))
    frames += play(game, 5)
    assert actions == [0, 0, UP, UP, UP, after, after]
    assert [frame.played.is_idle for frame in frames] == [True, True, False, False, False, True, True]
    assert [frame.played.age for frame in frames[:5]] == [None, None, 2, 3, 4]


def test_a_random_idle_action_is_held_as_long_as_any_other() -> None:
    game, actions = make_game(Ending(250), idle_action="random")
    play(game, 240)
    held = np.array(actions).reshape(-1, 3)
    assert (held == held[:, :1]).all()
    assert set(actions) == {0, UP, DOWN}


def test_the_newest_action_is_played_from_the_next_frame_on() -> None:
    game, actions = make_game(Ending(100))
    game.timeline.take_effect(Effect(0, UP, seen=0))
    play(game, 1)
    game.timeline.take_effect(Effect(1, DOWN, seen=0))
    frames = play(game, 4)
    assert actions == [UP, DOWN, DOWN, DOWN, 0]
    assert [(effect.decision, effect.age, effect.frames) for effect in game.timeline.take_effects()] == [(0, 0, 1)]
    assert [frame.played.effect and frame.played.effect.decision for frame in frames] == [1, 1, 1, None]


def test_a_game_pauses_after_its_end_and_its_register_is_empty_in_the_next_one() -> None:
    game, actions = make_game(Ending(2), Ending(9, cut=True))
    game.timeline.take_effect(Effect(0, UP, seen=0))
    assert [frame.ended for frame in play(game, 2)] == [False, True]
    assert not game.is_running and game.draw(()) == 0.0
    game.start()
    assert game.is_running and game.episode == 2 and game.timeline.frame == 2
    ends = [(frame.ended, frame.cut) for frame in play(game, 9)]
    assert actions[2:] == [0] * 9
    assert ends == [(False, False)] * 8 + [(True, True)]
