"""Films in the making: each game in a process of its own, until its file is whole."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from evaluation.logged_game import Recorder, Showing
from run_files.run_folder import remove_abandoned
from workers.child_process import end_process, start_process
from workers.failures import WorkersFailedError
from workers.messages import Kind, WorkerError, receive, send


@dataclass
class _Film:
    path: Path
    process: BaseProcess
    connection: Connection


class Filming:
    """Makes films in one folder, and says of each where it is, or why there is none."""

    def __init__(self, folder: Path, announce: Callable[[str], None]) -> None:
        self._folder = folder
        self._announce = announce
        self._films: list[_Film] = []

    @property
    def under_way(self) -> bool:
        return bool(self._films)

    def begin(self, showing: Showing, name: str, *, low_priority: bool) -> None:
        """Begin with the film of a game, or say why it cannot be made."""
        path = self._folder / f"{name}_game{showing.result.game}_return{showing.result.return_:.0f}.mp4"
        try:
            self._folder.mkdir(exist_ok=True)
            film = _Film(path, *start_process(Recorder(path=path, low_priority=low_priority), f"recorder-{name}"))
            self._films.append(film)
            send(film.connection, Kind.GAME, payload=showing)
        except OSError as error:
            self._announce(f"{path} could not be made: {error.strerror}")

    def wait(self, timeout: float) -> None:
        """Until one of the films is ready, or for `timeout` seconds."""
        ready = connections.wait([film.connection for film in self._films], timeout)
        for film in [film for film in self._films if film.connection in ready]:
            self._films.remove(film)
            try:
                outcome = receive(film.connection).payload
            except WorkerError as error:
                raise WorkersFailedError(f"{film.path} could not be made:\n{error}".rstrip()) from None
            except (EOFError, OSError):
                outcome = "its process died"
            finally:
                end_process(film.process, film.connection)
            made = isinstance(outcome, int)
            self._announce(
                f"video     {film.path}, {outcome:,} frames" if made else f"{film.path} could not be made: {outcome}"
            )

    def close(self) -> None:
        """Give up the films that are not ready yet."""
        if self._films:
            self._announce("videos that were not ready yet are left out")
        for film in self._films:
            end_process(film.process, film.connection)
        self._films.clear()
        remove_abandoned(self._folder)
