"""The parent's side of the player processes: sends games, receives results and replaces processes that die or hang."""

from collections import deque
from collections.abc import Iterable

from evaluation.parallel_games import GameResult
from evaluation.player_process import PlayerProcess
from processes.failures import WorkersFailedError
from processes.messages import Kind
from processes.pool import ChildPool, Ended, Member


class PlayerPool:
    """Plays all of the given games to their end, in several processes.

    A result does not depend on the process that plays the game. If a process dies, its games are played again. No game
    is left out: the mean of only the games that end first would be biased towards short games. A process that plays and
    is silent for as long as the pool of children allows is killed.
    """

    def __init__(self, children: ChildPool, player: PlayerProcess, processes: int, games: Iterable[int]) -> None:
        self._children = children
        self._slots = player.slots
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
                member.history.failures = 0
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
