"""Processes that make films: one process for each game."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from evaluation.logged_game import LoggedGame
from machine.system_settings import lower_priority, use_one_thread
from run_files.run_folder import remove_abandoned
from workers.child_process import end_process, start_process, why_it_ended
from workers.early_errors import reason
from workers.failures import WorkersFailedError
from workers.messages import Kind, WorkerError, receive, send


@dataclass(frozen=True, kw_only=True)
class FilmProcess:
    """A process that receives one game and writes its film. It sends the number of frames, or why the film failed."""

    path: Path
    low_priority: bool

    def run(self, connection: Connection) -> None:
        if self.low_priority:
            lower_priority()
        use_one_thread()
        game: LoggedGame = receive(connection).payload
        try:
            send(connection, Kind.RESULT, payload=game.write_film(self.path))
        except OSError as error:
            send(connection, Kind.RESULT, payload=error.strerror or str(error))


@dataclass
class _Film:
    path: Path
    process: BaseProcess
    connection: Connection


class FilmProcesses:
    """Makes films in one folder. Announces the path of each finished film, or why it failed."""

    def __init__(self, folder: Path, announce: Callable[[str], None]) -> None:
        self._folder = folder
        self._announce = announce
        self._films: list[_Film] = []

    @property
    def under_way(self) -> bool:
        """Whether any film is unfinished."""
        return bool(self._films)

    def begin(self, game: LoggedGame, name: str, *, low_priority: bool) -> None:
        """Start a process that makes the film of a game. If it cannot start, announce why."""
        path = self._folder / f"{name}_game{game.result.game}_return{game.result.return_:.0f}.mp4"
        try:
            self._folder.mkdir(exist_ok=True)
            film = _Film(path, *start_process(FilmProcess(path=path, low_priority=low_priority), f"film-{name}"))
            self._films.append(film)
            send(film.connection, Kind.GAME, payload=game)
        except OSError as error:
            self._announce(f"{path} could not be made: {error.strerror}")

    def wait(self, timeout: float) -> None:
        """Wait until a film is finished, or for `timeout` seconds."""
        ready = connections.wait([film.connection for film in self._films], timeout)
        for film in [film for film in self._films if film.connection in ready]:
            self._films.remove(film)
            try:
                outcome = receive(film.connection).payload
            except WorkerError as error:
                raise WorkersFailedError(f"{film.path} could not be made:\n{error}".rstrip()) from None
            except (EOFError, OSError):
                outcome = ""
            finally:
                exit_code = end_process(film.process, film.connection)
            outcome = outcome or reason(why_it_ended(film.process, exit_code)) or "its process died"
            made = isinstance(outcome, int)
            self._announce(
                f"video     {film.path}, {outcome:,} frames" if made else f"{film.path} could not be made: {outcome}"
            )

    def close(self) -> None:
        """Kill the processes that are still making films, and remove their unfinished files."""
        if self._films:
            self._announce("unfinished videos are dropped")
        for film in self._films:
            end_process(film.process, film.connection)
        self._films.clear()
        remove_abandoned(self._folder)
