"""Test games in real time, as a player process plays them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import NoReturn

import numpy as np

from evaluation.parallel_games import IDLE, GameResult, GameSeries, RunningGame, game_streams
from option_flags import RealtimeOptions
from processes.messages import Kind, receive, send
from workers.realtime.inference import RealtimeSetup
from workers.realtime.player import Book, ClockedGame, PlayedFrame
from workers.realtime.session import RealtimeSession
from wrappers.environment import FinishedGame

LONGEST_WAIT = 1.0  # seconds without a message of the parent, before the clock starts


class TestBook(Book):
    """Collects the results of test games. A game pauses when it has ended, and its place is free again."""

    __test__ = False  # otherwise pytest would collect the class as tests
    plays_on = False

    def __init__(
        self, take_finished_games: Sequence[Callable[[], Sequence[FinishedGame]]], logged: int, action_dtype: str
    ) -> None:
        """Games whose number is below `logged` keep a log, with actions of this type."""
        self._take_finished_games = take_finished_games
        self._logged = logged
        self._action_type = np.dtype(action_dtype)
        self._running: list[RunningGame | None] = [None] * len(take_finished_games)
        self._results: list[GameResult] = []

    def begin(self, game: int, rng: np.random.Generator) -> int:
        """Take a free place for a game; returns its index."""
        index = self._running.index(None)
        self._running[index] = RunningGame(game, rng)
        return index

    def take_results(self) -> list[GameResult]:
        """The games that have ended since the last call."""
        results, self._results = self._results, []
        return results

    def played(self, game: int, frame: PlayedFrame, missed: bool) -> None:
        running = self._running[game]
        assert running is not None
        if running.game < self._logged:
            running.actions.append(frame.action)
            running.values.append(np.nan if frame.register is None else frame.register.value)
            running.ages.append(IDLE if frame.age is None else frame.age)
        if frame.ended:
            finished = self._take_finished_games[game]()[-1]
            self._results.append(running.result(finished[:2], frame.cut, self._action_type))
            self._running[game] = None


def as_trained(realtime: RealtimeOptions, action_ms: float | None) -> RealtimeOptions:
    """The options of games whose actions take as long as in training, `action_ms`, because a policy learns this time.

    --inference_latency sets another time. Without a known time, the options stay as they are.
    """
    if realtime.inference_latency is not None or not action_ms:
        return realtime
    return replace(realtime, inference_latency=f"fixed:{action_ms:.4g}")


def play_in_real_time(
    series: GameSeries, setup: RealtimeSetup, parent: Connection, alive: Callable[[], None]
) -> NoReturn:
    """Play each game whose number arrives, and make each film that arrives, until the parent closes the connection.

    `alive` is called often.
    """
    environments = []
    for _ in range(series.slots):
        environments.append(series.make_environment(setup.environment, 0))
        alive()
    take_finished_games = [env.get_wrapper_attr("take_finished_games") for env in environments]
    book = TestBook(take_finished_games, series.logged, setup.layout.action_dtype)
    # Each test game brings its own random numbers.
    games = [ClockedGame(env, np.random.default_rng(), setup.environment) for env in environments]
    session = RealtimeSession(setup, games, book, parent)
    while True:
        alive()
        if session.step(LONGEST_WAIT):
            message = receive(parent)
            if message.payload is not None:
                send(parent, Kind.RESULT, message.index, message.payload.make(alive))
                continue
            environment_seed, rng = game_streams(series.seed, message.index)
            games[book.begin(message.index, rng)].start(environment_seed, rng)
        for result in book.take_results():
            send(parent, Kind.RESULT, result.game, result)
