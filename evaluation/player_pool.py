"""The parent's side of the player processes: sends games, receives results and replaces processes that die."""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from evaluation.parallel_games import GameResult
from evaluation.player_process import PlayerProcess
from workers.child_process import end_process, start_process, why_it_ended
from workers.early_errors import reason
from workers.failures import WorkersFailedError, could_not_start
from workers.messages import Kind, WorkerError, receive, send

MAX_DEATHS_IN_A_ROW = 5  # without a finished game between them


@dataclass
class _Player:
    """A running process and the numbers of the games that it is playing."""

    index: int
    process: BaseProcess
    connection: Connection
    games: set[int] = field(default_factory=set)


class PlayerPool:
    """Plays all of the given games to their end, in several processes.

    A result does not depend on the process that plays the game. If a process dies, its games are played again. No
    game is left out: the mean of only the games that end first would be biased towards short games.
    """

    def __init__(self, player: PlayerProcess, processes: int, games: Iterable[int]) -> None:
        self._player = player
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
        """Wait until a game ends, or for `timeout` seconds. Returns the games that ended.

        Raises WorkersFailedError if a player raises an exception, or if players die again and again.
        """
        sources: dict[Any, _Player] = {player.connection: player for player in self._players}
        sources |= {player.process.sentinel: player for player in self._players}
        ready = connections.wait(list(sources), timeout)
        results: list[GameResult] = []
        for player in {id(sources[source]): sources[source] for source in ready}.values():
            self._receive(player, results)
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
            player = _Player(index, *start_process(self._player, f"player-{index}"))
        except OSError as error:
            raise could_not_start(f"player {index}", error) from None
        self._players.append(player)
        return player

    def _send_game(self, player: _Player) -> None:
        """Send the next game, if there is one. If the player has just died, the next `wait` notices it."""
        if not self._waiting:
            return
        game = self._waiting.popleft()
        player.games.add(game)
        with suppress(BrokenPipeError, ConnectionResetError):
            send(player.connection, Kind.GAME, game)

    def _receive(self, player: _Player, results: list[GameResult]) -> None:
        try:
            while player.connection.poll():
                result = receive(player.connection).payload
                player.games.discard(result.game)
                results.append(result)
                self._deaths = 0
                self._send_game(player)
            if player.process.exitcode is not None:
                self._replace(player)
        except WorkerError as error:
            raise WorkersFailedError(f"a player failed:\n{error}".rstrip()) from None
        except (EOFError, OSError):
            self._replace(player)

    def _replace(self, dead: _Player) -> None:
        self._players.remove(dead)
        exit_code = end_process(dead.process, dead.connection)
        self._deaths += 1
        if self._deaths >= MAX_DEATHS_IN_A_ROW:
            said = reason(why_it_ended(dead.process, exit_code))
            raise WorkersFailedError(
                f"players died {self._deaths} times before any game ended, the last one with exit code {exit_code}"
                + (f" before it was ready ({said})" if said else "")
            )
        self._waiting.extendleft(sorted(dead.games, reverse=True))
        if self._waiting:
            successor = self._start(dead.index)
            for _ in range(max(1, len(dead.games))):
                self._send_game(successor)
