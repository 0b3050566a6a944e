"""The player acts when the simulation of the same rule with the same inference times does, and keeps to the clock."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from agents.acting import Decision
from replay.unroll_layout import UnrollLayout
from tests.workers.realtime.fake_inference import FPS, FakeSession, note_effects
from tests.workers.realtime.numbered_frames import OPTIONS, Ending, make_numbered
from tests.workers.realtime.simulation import simulate
from workers.realtime.player import LATEST_START, Book, ClockedGame, PlayedFrame

LAYOUT = UnrollLayout(5, 3, frame_shape=(1, 4, 4), action_sizes=(3,), delayed_actions=True, real_time=True)
FRAME = OPTIONS.skipped_frames / FPS


class Timed(Book):
    """When actions take effect, and how long the decisions took."""

    def __init__(self, times: list[Iterator[float]]) -> None:
        environment = make_numbered(Ending(10**9))
        games = [ClockedGame(environment, np.random.default_rng(0), OPTIONS)]
        games[0].start()
        note_effects(games[0], lambda effect: self.effects.append(self._session.inference.now))
        self.times, self.games = times, games
        self.effects: list[float] = []
        self.seconds: list[float] = []
        self.missed: list[bool] = []

    def session(self, rule: Any = "none") -> FakeSession:
        times = self.times
        self._session = FakeSession(self.games, LAYOUT, self, lambda index: next(times[index]), len(times), rule)
        return self._session

    def decided(self, sequence: int, decision: Decision, version: int, seconds: float) -> None:
        self.seconds.append(seconds)

    def played(self, game: int, frame: PlayedFrame, missed: bool) -> None:
        self.missed.append(missed)


@pytest.mark.parametrize("rule", ["none", "max", "mean"])
@pytest.mark.parametrize("processes", [1, 2, 7, 30])
def test_actions_take_effect_as_in_the_simulation(rule: str, processes: int) -> None:
    times = np.random.default_rng(processes).lognormal(0.0, 0.5, (processes, 20))
    expected = simulate(rule, times, FRAME).times
    timed = Timed([iter(row) for row in times])
    session = timed.session(rule)
    session.play(lambda: len(timed.effects) == len(expected) - 1)
    np.testing.assert_allclose(timed.effects, expected[:-1], rtol=1e-9)


def test_a_lost_process_does_nothing_until_it_joins_again() -> None:
    timed = Timed([iter([100.0]), iter([2.0]), iter([2.5, 1.0])])
    session = timed.session()
    session.play(lambda: len(timed.seconds) == 1)
    session.player.lost(0)  # it is making a decision
    session.player.lost(1)  # its action has not taken effect
    del session.inference.finished_at[0]
    session.play(lambda: session.inference.now > 3.0)
    assert timed.effects == [2.5]


@pytest.mark.parametrize(("late", "counted"), [(LATEST_START / 2, 3.0), (2 * LATEST_START, 3.0 - 2 * LATEST_START)])
def test_a_start_that_is_a_little_late_counts_from_its_time_in_the_schedule(late: float, counted: float) -> None:
    timed = Timed([iter([])])
    session = timed.session()
    session.player.lost(0)
    session.player.joined(0, -1.0)  # before the first frame
    timed.times[0] = iter([math.inf])
    session.player.happen(-1.0 + late)
    session.player.answered(0, *session.inference.result(0), -1.0 + 3.0)
    assert timed.seconds == [counted]


def test_frames_do_not_drift() -> None:
    """Each frame is played some time after it was due, and the last one is still due in time."""
    timed = Timed([])
    player = timed.session().player
    for k in range(10_000):
        assert player.next_time == pytest.approx(k / FPS, abs=1e-9)
        player.happen(player.next_time + 0.8 / FPS)
    assert not any(timed.missed)


def test_frames_that_are_late_are_missed_and_none_is_skipped() -> None:
    timed = Timed([])
    player = timed.session().player
    player.happen(0.0)
    while player.next_time <= 0.55:  # after a pause of half a second
        player.happen(0.55)
    assert timed.missed == [False, True, True, True, True, False]
    assert player.next_time == pytest.approx(0.6)


def test_a_game_that_has_not_started_is_not_looked_at() -> None:
    """Before its first reset, an environment may have nothing to show."""
    started = Timed([itertools.repeat(0.01)])
    waiting = ClockedGame(make_numbered(Ending(10**9)), np.random.default_rng(0), OPTIONS)
    waiting._look = lambda: pytest.fail("nothing is to be seen yet")
    started.games.append(waiting)
    session = started.session()
    session.play(lambda: len(started.seconds) == 3)
