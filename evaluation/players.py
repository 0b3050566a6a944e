"""Processes that play complete games with one policy, and their pool: numbers of games go out, results come back."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import torch

from agents.acting import Actor
from agents.network import ActorCritic
from evaluation.parallel_games import GameResult, GameSeries, ParallelGames
from evaluation.realtime_games import play_in_real_time
from machine.system_settings import lower_priority, use_one_thread
from option_flags import NetworkOptions, RealtimeOptions
from processes.inside import Heartbeat
from processes.messages import Kind, receive, send
from processes.pool import ChildPool, Ended, Member, WorkersFailedError
from replay.unroll_layout import UnrollLayout
from workers.realtime.inference import RealtimeSetup
from workers.shared_weights import NewestWeights, SharedWeights


@dataclass(frozen=True, kw_only=True)
class PlayerProcess:
    """The arguments of the process, and its main function `run`."""

    series: GameSeries
    network: NetworkOptions
    layout: UnrollLayout
    compute_dtype: torch.dtype
    weights: SharedWeights  # published once, before the process starts
    low_priority: bool = False
    realtime: RealtimeOptions = field(default_factory=RealtimeOptions)
    inference_processes: int = 0  # with --interaction=realtime
    timeout: float = 120.0  # seconds of silence after which the player, or its inference process, counts as hanging

    def run(self, connection: Connection) -> None:
        """Play each game whose number arrives, until the parent closes the connection."""
        use_one_thread()
        alive = Heartbeat(connection)
        if self.series.environment.in_real_time:
            self._lower_priority()
            play_in_real_time(self.series, self._realtime_setup(), connection, alive)
        actor = Actor(ActorCritic(self.network, self.layout, self.compute_dtype))
        NewestWeights(self.weights, actor, torch.device("cpu")).load()
        games = ParallelGames(self.series, actor, self.layout, alive)
        games.start(receive(connection).index)
        self._lower_priority()  # not before: code is imported for the first game, in one silence
        while True:
            while not games.running or connection.poll():
                games.start(receive(connection).index)
            for result in games.step():
                send(connection, Kind.RESULT, payload=result)

    def _lower_priority(self) -> None:
        if self.low_priority:
            lower_priority()

    def _realtime_setup(self) -> RealtimeSetup:
        return RealtimeSetup(
            environment=self.series.environment,
            realtime=self.realtime,
            network=self.network,
            layout=self.layout,
            compute_dtype=self.compute_dtype,
            weights=self.weights,
            processes=self.inference_processes,
            timeout=self.timeout,
            seed=self.series.seed,
            greedy=self.series.greedy,
        )


class PlayerPool:
    """Plays all of the given games to their end, in several processes.

    A result does not depend on the process that plays the game. If a process dies, its games are played again. No game
    is left out: the mean of only the games that end first would be biased towards short games. A process that plays and
    is silent for as long as the pool of children allows is killed.
    """

    def __init__(self, children: ChildPool, player: PlayerProcess, processes: int, games: Iterable[int]) -> None:
        self._children = children
        self._slots = player.series.slots
        self._waiting = deque(games)
        self._games: dict[Member, set[int]] = {}  # that each process plays
        try:
            for index in range(min(processes, len(self._waiting))):
                member = Member(f"player {index}", lambda starts: player, index)
                self._games[member] = set()
                children.add(member)
            self._send_games()
        except BaseException:
            self.close()
            raise

    @property
    def has_unfinished_games(self) -> bool:
        """Whether any game is waiting or being played."""
        return bool(self._waiting) or any(self._games.values())

    def process_ids(self) -> list[int]:
        return self._children.process_ids()

    def wait(self, timeout: float) -> list[GameResult]:
        """Wait for a result or a sign of life, or for `timeout` seconds. Returns the games that ended.

        Raises WorkersFailedError if the code of a player raises an exception or hangs, or if players end again and
        again.
        """
        self._children.start_due()
        self._send_games()
        results: list[GameResult] = []
        for member, event in self._children.poll(timeout):
            if isinstance(event, Ended):
                if event.in_code:
                    raise WorkersFailedError(f"a player {event.in_words()}")
                self._waiting.extendleft(sorted(self._games[member], reverse=True))
                self._games[member].clear()
                self._children.replace(member, event)
            elif event.kind == Kind.RESULT:
                self._games[member].discard(event.payload.game)
                member.owes -= 1
                member.failures = 0
                results.append(event.payload)
        self._send_games()
        return results

    def close(self) -> None:
        """Kill all players. The results of running games are lost."""
        self._children.close()

    def _send_games(self) -> None:
        """One game per process at a time, so that few games spread over all processes."""
        for playing in range(self._slots):
            for member, games in self._games.items():
                if self._waiting and member.child is not None and len(games) <= playing:
                    games.add(self._waiting[0])
                    self._children.request(member, Kind.GAME, self._waiting.popleft())
