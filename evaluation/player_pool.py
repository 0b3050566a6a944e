"""The parent's side of the player processes: sends games, receives results and replaces processes that die or hang."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from evaluation.parallel_games import GameResult
from evaluation.player_process import PlayerProcess
from workers.failures import WorkersFailedError, could_not_start
from workers.messages import Kind, WorkerError, receive, send
from workers.processes.child_process import end_process, start_process, why_it_ended
from workers.processes.early_errors import reason
from workers.processes.silence import SilenceLimit

MAX_DEATHS_IN_A_ROW = 5  # without a finished game between them


@dataclass
class _Player:
    """A running process and the numbers of the games that it is playing."""

    index: int
    process: BaseProcess
    connection: Connection
    silent_since: float  # time of the latest message, or of the first game that it was sent
    interrupted_at: float | None = None  # when it was asked where it hangs
    games: set[int] = field(default_factory=set)


class PlayerPool:
    """Plays all of the given games to their end, in several processes.

    A result does not depend on the process that plays the game. If a process dies, its games are played again. No
    game is left out: the mean of only the games that end first would be biased towards short games. A process that
    plays and is silent for `player.timeout` seconds has to say where it hangs; one that cannot is killed.
    """

    def __init__(
        self,
        player: PlayerProcess,
        processes: int,
        games: Iterable[int],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._player = player
        self._clock = clock
        self._silence = SilenceLimit(player.timeout, clock)
        self._waiting = deque(games)
        self._players: list[_Player] = []
        self._deaths = 0
        try:
            for index in range(min(processes, len(self._waiting))):
                self._start(index)
            for _ in range(player.slots):  # one game per process at a time, so that few games spread over all processes
                for started in self._players:
                    self._send_game(started)
        except BaseException:
            self.close()
            raise

    @property
    def has_unfinished_games(self) -> bool:
        """Whether any game is waiting or being played."""
        return bool(self._waiting) or any(player.games for player in self._players)

    def process_ids(self) -> list[int]:
        return [player.process.pid for player in self._players if player.process.pid]

    def wait(self, timeout: float) -> list[GameResult]:
        """Wait for a result or a sign of life, or for `timeout` seconds. Returns the games that ended.

        Raises WorkersFailedError if a player raises an exception or says where it hangs, or if players die again and
        again.
        """
        sources: dict[Any, _Player] = {player.connection: player for player in self._players}
        sources |= {player.process.sentinel: player for player in self._players}
        ready = connections.wait(list(sources), timeout)
        results: list[GameResult] = []
        heard = {sources[source].index for source in ready}
        for player in list(self._players):
            # A process that its environment forked may keep a player's pipe open, so that its end is not heard.
            if player.index in heard or player.process.exitcode is not None:
                self._receive(player, results)
        self._silence.has_waited(timeout, self._players)
        for player in list(self._players):
            if player.games and self._silence.hangs(player, player.process):
                self._replace(player, self._silence.hang_in_words(player.process))
        return results

    def close(self) -> None:
        """Kill all players. The results of running games are lost."""
        for player in self._players:
            player.process.kill()
        for player in self._players:
            end_process(player.process, player.connection)
        self._players.clear()

    def _start(self, index: int) -> _Player:
        try:
            player = _Player(index, *start_process(self._player, f"player-{index}"), silent_since=self._clock())
        except OSError as error:
            raise could_not_start(f"player {index}", error) from None
        self._players.append(player)
        return player

    def _send_game(self, player: _Player) -> None:
        """Send the next game, if there is one. If the player has just died, the next `wait` notices it."""
        if not self._waiting:
            return
        game = self._waiting.popleft()
        if not player.games:
            player.silent_since = self._clock()
        player.games.add(game)
        with suppress(BrokenPipeError, ConnectionResetError):
            send(player.connection, Kind.GAME, game)

    def _receive(self, player: _Player, results: list[GameResult]) -> None:
        try:
            while player.connection.poll():
                message = receive(player.connection)
                player.silent_since = self._clock()
                if message.kind == Kind.RESULT:
                    player.games.discard(message.payload.game)
                    results.append(message.payload)
                    self._deaths = 0
                    self._send_game(player)
            if player.process.exitcode is not None:
                self._replace(player)
        except WorkerError as error:
            what = "failed" if player.interrupted_at is None else self._silence.in_words
            raise WorkersFailedError(f"a player {what}:\n{error}".rstrip()) from None
        except (EOFError, OSError):
            self._replace(player)

    def _replace(self, dead: _Player, hang: str = "") -> None:
        """Play the games of a process again that has died, or that is killed because of a hang."""
        self._players.remove(dead)
        exit_code = end_process(dead.process, dead.connection)
        self._deaths += 1
        if self._deaths >= MAX_DEATHS_IN_A_ROW:
            raise WorkersFailedError(
                f"players died {self._deaths} times before any game ended, "
                f"the last one {self._how_it_died(dead, exit_code, hang)}"
            )
        self._waiting.extendleft(sorted(dead.games, reverse=True))
        if self._waiting:
            successor = self._start(dead.index)
            for _ in range(max(1, len(dead.games))):
                self._send_game(successor)

    def _how_it_died(self, dead: _Player, exit_code: int, hang: str) -> str:
        if hang:
            return f"because of --worker_timeout: while it played {self._player.environment.env}, it {hang}"
        said = reason(why_it_ended(dead.process, exit_code))
        return f"with exit code {exit_code}" + (f" before it was ready ({said})" if said else "")
