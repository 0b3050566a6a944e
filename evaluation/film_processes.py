"""Processes that make films: one process for each game."""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import gymnasium

from evaluation.film import Picture, score_text
from evaluation.logged_game import LoggedGame, WrittenFilm
from machine.system_settings import lower_priority, use_one_thread
from option_flags import EnvironmentOptions
from run_files.run_folder import remove_abandoned
from workers.failures import WorkersFailedError
from workers.messages import Kind, WorkerError, receive, send
from workers.processes.child_process import end_process, start_process, unblock_sigterm, why_it_ended
from workers.processes.early_errors import reason
from workers.processes.heartbeat import Heartbeat
from workers.processes.silence import SilenceLimit
from wrappers.environment import MakeWatchedEnvironment, Watch


@dataclass(frozen=True, kw_only=True)
class FilmProcess:
    """A process that receives one game and writes its film. It sends a WrittenFilm, or why there is none."""

    path: Path
    low_priority: bool

    def run(self, connection: Connection, game_file: Connection) -> None:
        use_one_thread()
        unblock_sigterm()
        game: LoggedGame = receive(game_file).payload
        heard = replace(game, make_environment=self._with_heartbeats(game.make_environment, Heartbeat(connection)))
        try:
            send(connection, Kind.RESULT, payload=heard.write_film(self.path))
        except OSError as error:
            send(connection, Kind.RESULT, payload=error.strerror or str(error))

    def _with_heartbeats(
        self, make_environment: MakeWatchedEnvironment, alive: Callable[[], None]
    ) -> MakeWatchedEnvironment:
        """A function that makes the same environment; with each of its pictures the process shows that it is alive."""

        def make(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
            def seen(picture: Picture, score: float) -> None:
                alive()
                if watch is not None:
                    watch(picture, score)

            environment = make_environment(options, seed, seen)
            alive()
            if self.low_priority:  # not before: code is imported for the environment, in one silence
                lower_priority()
            return environment

        return make


@dataclass
class _Film:
    path: Path
    process: BaseProcess
    connection: Connection
    silent_since: float
    interrupted_at: float | None = None  # when it was asked where it hangs


def _in_a_file(game: LoggedGame) -> Connection:
    """The game in a nameless file, to be received from it: a pipe holds a long one only while somebody reads it."""
    with tempfile.TemporaryFile() as file, Connection(os.dup(file.fileno())) as writer:
        send(writer, Kind.GAME, payload=game)
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        return Connection(os.dup(file.fileno()))


class FilmProcesses:
    """Makes films in one folder. Announces the path of each finished film, or why it failed.

    A process that is silent for `silence_limit` seconds has to say where it hangs; one that cannot is killed.
    """

    def __init__(
        self,
        folder: Path,
        announce: Callable[[str], None],
        silence_limit: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._announce = announce
        self._clock = clock
        self._silence = SilenceLimit(silence_limit, clock)
        self._films: list[_Film] = []

    @property
    def under_way(self) -> bool:
        """Whether any film is unfinished."""
        return bool(self._films)

    def begin(self, game: LoggedGame, name: str, *, low_priority: bool) -> None:
        """Start a process that makes the film of a game. If it cannot start, announce why."""
        score = score_text(game.result.return_, thousands="")
        path = self._folder / f"{name}_game{game.result.game}_return{score}.mp4"
        try:
            self._folder.mkdir(exist_ok=True)
            process = FilmProcess(path=path, low_priority=low_priority)
            started = start_process(process, f"film-{name}", _in_a_file(game))
            self._films.append(_Film(path, *started, silent_since=self._clock()))
        except OSError as error:
            self._announce(f"{path} could not be made: {error.strerror}")

    def wait(self, timeout: float) -> None:
        """Wait for a message of a process, or for `timeout` seconds. Call it often: it also hears signs of life.

        Raises WorkersFailedError if a process raises an exception or says where it hangs.
        """
        ready = connections.wait([film.connection for film in self._films], timeout)
        for film in [film for film in self._films if film.connection in ready]:
            self._receive(film)
        self._silence.has_waited(timeout, self._films)
        for film in list(self._films):
            if self._silence.hangs(film, film.process):
                self._conclude(film, f"its process {self._silence.hang_in_words(film.process)}")
            elif film.process.exitcode is not None and not film.connection.poll():
                self._conclude(film, "")  # a process that its environment forked may keep its pipe open

    def _receive(self, film: _Film) -> None:
        try:
            message = receive(film.connection)
        except WorkerError as error:
            self._end(film)
            what = "" if film.interrupted_at is None else f": its process {self._silence.in_words}"
            raise WorkersFailedError(f"{film.path} could not be made{what}:\n{error}".rstrip()) from None
        except (EOFError, OSError):
            self._conclude(film, "")
            return
        film.silent_since = self._clock()
        if message.kind == Kind.RESULT:
            self._conclude(film, message.payload)

    def _conclude(self, film: _Film, outcome: WrittenFilm | str) -> None:
        """End the process, and announce its film or why there is none; empty if the process died."""
        exit_code = self._end(film)
        outcome = outcome or reason(why_it_ended(film.process, exit_code)) or "its process died"
        if isinstance(outcome, str):
            self._announce(f"{film.path} could not be made: {outcome}")
            return
        self._announce(f"video     {film.path}, {outcome.frames:,} frames")
        if outcome.note:
            self._announce(outcome.note)

    def _end(self, film: _Film) -> int:
        self._films.remove(film)
        return end_process(film.process, film.connection)

    def close(self) -> None:
        """Kill the processes that are still making films, and remove their unfinished files."""
        if self._films:
            self._announce("unfinished videos are dropped")
        for film in self._films:
            end_process(film.process, film.connection)
        self._films.clear()
        remove_abandoned(self._folder)
