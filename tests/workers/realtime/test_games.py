import dataclasses

import numpy as np
import pytest

from tests.workers.realtime.numbered_frames import OPTIONS, Ending, emulator_of, make_numbered
from workers.realtime.games import RealtimeGames, Register

UP, DOWN = 1, 2


def make_games(*endings: Ending, idle_action: str = "noop") -> tuple[RealtimeGames, list[int]]:
    """One game that has started, and the list of the actions that it plays."""
    options = dataclasses.replace(OPTIONS, skipped_frames=3, idle_action=idle_action)
    env = make_numbered(*endings, options=options)
    games = RealtimeGames([env], [np.random.default_rng(0)], options)
    games.start(0)
    return games, emulator_of(env).actions


def play(games: RealtimeGames, frames: int) -> list[bool]:
    """Play some frames; returns which of them were idle."""
    return [frame.idle for _ in range(frames) for _, frame in games.play_frame()]


@pytest.mark.parametrize(("idle_action", "after"), [("noop", 0), ("repeat", UP)])
def test_an_action_is_held_and_then_the_idle_action_is_played(idle_action: str, after: int) -> None:
    games, actions = make_games(Ending(100), idle_action=idle_action)
    idle = play(games, 2)
    assert games.act(0, Register(UP, 0.0, seen=0, process=0, sequence=0)) == 2
    idle += play(games, 5)
    assert actions == [0, 0, UP, UP, UP, after, after]
    assert idle == [True, True, False, False, False, True, True]


def test_a_random_idle_action_is_held_as_long_as_any_other() -> None:
    games, actions = make_games(Ending(250), idle_action="random")
    play(games, 240)
    held = np.array(actions).reshape(-1, 3)
    assert (held == held[:, :1]).all()
    assert set(actions) == {0, UP, DOWN}


def test_the_newest_action_is_played_from_the_next_frame_on() -> None:
    games, actions = make_games(Ending(100))
    games.act(0, Register(UP, 0.0, seen=0, process=0, sequence=0))
    play(games, 1)
    assert games.act(0, Register(DOWN, 0.0, seen=0, process=1, sequence=1)) == 1
    frames = [frame for _ in range(4) for _, frame in games.play_frame()]
    assert actions == [UP, DOWN, DOWN, DOWN, 0]
    assert [frame.register and frame.register.sequence for frame in frames] == [1, 1, 1, None]


def test_decisions_for_an_episode_that_is_over_are_not_current() -> None:
    games, actions = make_games(Ending(2), Ending(9, cut=True))
    before = games.screens()
    games.act(0, Register(UP, 0.0, seen=0, process=0, sequence=0))
    assert games.is_current(0, before)
    play(games, 10)  # the game pauses after its end
    assert len(actions) == 2
    assert not games.is_current(0, before)
    games.start(0)
    assert not games.is_current(0, before)
    assert games.is_current(0, games.screens())
    ends = [(frame.ended, frame.cut) for _ in range(9) for _, frame in games.play_frame()]
    assert actions[2:] == [0] * 9, "the register of the game before is empty"
    assert ends == [(False, False)] * 8 + [(True, True)]
