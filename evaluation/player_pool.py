"""The players' processes as their parent sees them: games go out, results come in, and those that die are replaced."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from evaluation.parallel_games import SEATS, GameResult
from evaluation.player_process import Player
from workers.child_process import end_process, start_process
from workers.failures import WorkersFailedError, could_not_start
from workers.messages import Kind, WorkerError, receive, send

DEATHS_IN_A_ROW = 5  # without a game coming to its end in between


@dataclass
class _Place:
    """A process, and the games that it was given."""

    number: int
    process: BaseProcess
    connection: Connection
    games: set[int] = field(default_factory=set)


class Players:
    """Plays every one of the given games to its end.

    Which process plays a game makes no difference to it, and none is left out: were only those counted that end first,
    short games would be too many. The games of a process that dies are played again.
    """

    def __init__(self, make_player: Callable[[], Player], processes: int, games: Iterable[int]) -> None:
        self._make_player = make_player
        self._waiting = deque(games)
        self._places: list[_Place] = []
        self._deaths = 0
        try:
            for number in range(min(processes, len(self._waiting))):
                self._start(number)
            for _ in range(SEATS):  # one game each in turn: few games go to as many processes as there are
                for place in self._places:
                    self._deal(place)
        except BaseException:
            self.close()
            raise

    @property
    def at_work(self) -> bool:
        """Whether any game is not over yet."""
        return bool(self._waiting) or any(place.games for place in self._places)

    def process_ids(self) -> list[int]:
        return [place.process.pid for place in self._places if place.process.pid]

    def wait(self, timeout: float) -> list[GameResult]:
        """The games that ended, as soon as there are any, or none after `timeout` seconds.

        Raises WorkersFailedError where a player fails, or where they die one after another.
        """
        sources: dict[Any, _Place] = {place.connection: place for place in self._places}
        sources |= {place.process.sentinel: place for place in self._places}
        ready = connections.wait(list(sources), timeout)
        results: list[GameResult] = []
        for place in {id(sources[source]): sources[source] for source in ready}.values():
            self._listen(place, results)
        return results

    def close(self) -> None:
        """End all players; the games under way are lost."""
        for place in self._places:
            place.process.kill()
        for place in self._places:
            end_process(place.process, place.connection)
        self._places.clear()

    def _start(self, number: int) -> _Place:
        try:
            place = _Place(number, *start_process(self._make_player(), f"player-{number}"))
        except OSError as error:
            raise could_not_start(f"player {number}", error) from None
        self._places.append(place)
        return place

    def _deal(self, place: _Place) -> None:
        """Give the player another game, if there is one. One that has just died is noticed by the next `wait`."""
        if not self._waiting:
            return
        game = self._waiting.popleft()
        place.games.add(game)
        with suppress(BrokenPipeError, ConnectionResetError):
            send(place.connection, Kind.GAME, game)

    def _listen(self, place: _Place, results: list[GameResult]) -> None:
        try:
            while place.connection.poll():
                result = receive(place.connection).payload
                place.games.discard(result.game)
                results.append(result)
                self._deaths = 0
                self._deal(place)
            if place.process.exitcode is not None:
                self._replace(place)
        except WorkerError as error:
            raise WorkersFailedError(f"a player failed:\n{error}".rstrip()) from None
        except (EOFError, OSError):
            self._replace(place)

    def _replace(self, place: _Place) -> None:
        self._places.remove(place)
        exit_code = end_process(place.process, place.connection)
        self._deaths += 1
        if self._deaths >= DEATHS_IN_A_ROW:
            raise WorkersFailedError(
                f"players died {self._deaths} times before any game was over, the last one with exit code {exit_code}"
            )
        self._waiting.extendleft(sorted(place.games, reverse=True))
        if self._waiting:
            successor = self._start(place.number)
            for _ in range(max(1, len(place.games))):
                self._deal(successor)
