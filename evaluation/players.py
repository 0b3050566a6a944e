"""Processes that play complete games with one policy and film them, and their pool."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch

from agents.acting import Actor
from agents.network import ActorCritic
from evaluation.parallel_games import IDLE, GameResult, GameSeries, ParallelGames, RunningGame, game_streams
from machine.system_settings import use_one_thread
from option_flags import Config, RealtimeOptions
from processes.inside import Heartbeat
from processes.messages import Kind, receive, send
from processes.pool import ChildPool, Ended, Member, WorkersFailedError
from replay.unroll_layout import UnrollLayout
from run_files.run_folder import remove_abandoned
from workers.realtime.inference import RealtimeSetup
from workers.realtime.player import Book, ClockedGame, PlayedFrame
from workers.realtime.session import RealtimeSession
from workers.shared_weights import NewestWeights, SharedWeights
from wrappers.environment import FinishedGame

if TYPE_CHECKING:  # a film is pickled, so only a process that makes one imports what films need
    from evaluation.logged_game import FilmOfGame

LONGEST_WAIT = 1.0  # seconds without a message of the parent, before the clock starts


@dataclass(frozen=True, kw_only=True)
class PlayerProcess:
    """The arguments of the process, and its main function `run`."""

    series: GameSeries
    setup: RealtimeSetup  # its weights are published once, before the process starts
    low_priority: bool = False

    def run(self, connection: Connection) -> None:
        """Play each game whose number arrives, and make each film that arrives, until the parent closes the connection.

        The priority is lowered after the first game has started: code is imported for it, in one silence.
        """
        use_one_thread()
        alive, setup = Heartbeat(connection), self.setup
        if setup.config.environment.in_real_time:
            if self.low_priority:
                os.nice(19)
            play_in_real_time(self.series, setup, connection, alive)
        actor = Actor(ActorCritic(setup.config.network, setup.layout, setup.compute_dtype))
        NewestWeights(setup.weights, actor, torch.device("cpu")).load()
        games = ParallelGames(self.series, actor, setup.layout, alive)
        while True:
            while not games.running or connection.poll():
                message = receive(connection)
                if message.payload is None:
                    games.start(message.index)
                else:
                    send(connection, Kind.RESULT, message.index, message.payload.make(alive))
                if self.low_priority:
                    os.nice(19)
            for result in games.step():
                send(connection, Kind.RESULT, result.game, result)


def as_trained(realtime: RealtimeOptions, action_ms: float | None) -> RealtimeOptions:
    """The options of games whose actions take as long as in training, `action_ms`, because a policy learns this time.

    --inference_latency sets another time. Without a known time, the options stay as they are.
    """
    if realtime.inference_latency is not None or not action_ms:
        return realtime
    return replace(realtime, inference_latency=f"fixed:{action_ms:.4g}")


def player_of(
    config: Config,
    series: GameSeries,
    layout: UnrollLayout,
    compute_dtype: torch.dtype,
    weights: SharedWeights,
    inference_processes: int = 0,  # with --interaction=realtime
) -> PlayerProcess:
    setup = RealtimeSetup(
        config=replace(config, environment=series.environment),
        layout=layout,
        compute_dtype=compute_dtype,
        weights=weights,
        processes=inference_processes,
        seed=series.seed,
        greedy=series.greedy,
    )
    return PlayerProcess(series=series, setup=setup)


class PlayerPool:
    """Plays all of the given games to their end, in several processes, and then films some of them.

    A result does not depend on the process that plays the game. If a process dies, its games are played again. No game
    is left out: the mean of only the games that end first would be biased towards short games. A process that plays and
    is silent for as long as the pool of children allows is killed.
    """

    def __init__(self, children: ChildPool, player: PlayerProcess, processes: int, games: Iterable[int]) -> None:
        self.announce = children.announce
        self.children = children
        self._slots = player.series.slots
        # A task is the number of a game, and what is to be filmed of it; None to play it.
        self._waiting: deque[tuple[int, FilmOfGame | None]] = deque((game, None) for game in games)
        self._given: dict[Member, dict[int, FilmOfGame | None]] = {}
        try:
            for index in range(min(processes, len(self._waiting))):
                member = Member(f"player {index}", lambda starts: player, index)
                self._given[member] = {}
                children.add(member)
            self._send_tasks()
        except BaseException:
            self.close()
            raise

    @property
    def under_way(self) -> bool:
        """Whether any game or film is not finished."""
        return bool(self._waiting) or any(self._given.values())

    def film(self, number: int, film: "FilmOfGame") -> None:
        """Film a game that has ended."""
        self._waiting.append((number, film))

    def wait(self, timeout: float) -> list[GameResult]:
        """Wait for a result or a sign of life, or for `timeout` seconds. Returns the games that ended.

        Call it often: it also hears signs of life. Raises WorkersFailedError if the code of a player raises an
        exception or hangs, or if players end again and again.
        """
        self.children.start_due()
        self._send_tasks()
        results: list[GameResult] = []
        for member, event in self.children.poll(timeout):
            given = self._given[member]
            if isinstance(event, Ended):
                if event.in_code:
                    raise WorkersFailedError(f"a player {event.in_words()}")
                self._waiting.extendleft(sorted(given.items(), reverse=True))
                given.clear()
                self.children.replace(member, event)
            elif event.kind == Kind.RESULT:
                film = given.pop(event.index)
                member.owes -= 1
                member.failures = 0
                if film is None:
                    results.append(event.payload)
                    continue
                for sentence in event.payload:
                    self.announce(sentence)
        self._send_tasks()
        return results

    def close(self) -> None:
        """Kill all players. The results of running games are lost, and so are unfinished films."""
        tasks = [*self._waiting, *(task for given in self._given.values() for task in given.items())]
        films = [film for _, film in tasks if film is not None]
        self.children.close()
        if films:
            self.announce("unfinished videos are dropped")
            remove_abandoned(films[0].path.parent)
        self._waiting.clear()
        self._given.clear()

    def _send_tasks(self) -> None:
        """One game per process at a time, so that few games spread over all processes.

        A film is for a process without other work: the log of its game is long, and a busy process would not read it.
        """
        for playing in range(self._slots):
            for member, given in self._given.items():
                if not self._waiting or member.child is None or len(given) > playing:
                    continue
                if self._waiting[0][1] is not None and given:
                    continue
                number, film = self._waiting.popleft()
                given[number] = film
                self.children.request(member, Kind.GAME, number, film)


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
            action, age, effect, _ = frame.played
            running.actions.append(action)
            running.values.append(np.nan if effect is None else effect.value)
            running.ages.append(IDLE if age is None else age)
        if frame.ended:
            finished = self._take_finished_games[game]()[-1]
            self._results.append(running.result(finished[:2], frame.cut, self._action_type))
            self._running[game] = None


def play_in_real_time(
    series: GameSeries, setup: RealtimeSetup, parent: Connection, alive: Callable[[], None]
) -> NoReturn:
    """Play each game whose number arrives, and make each film that arrives, until the parent closes the connection.

    `alive` is called often.
    """
    environments = []
    for _ in range(series.slots):
        environments.append(series.make_environment(setup.config.environment, 0))
        alive()
    take_finished_games = [env.get_wrapper_attr("take_finished_games") for env in environments]
    book = TestBook(take_finished_games, series.logged, setup.layout.action_dtype)
    # Each test game brings its own random numbers.
    games = [ClockedGame(env, np.random.default_rng(), setup.config.environment) for env in environments]
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
