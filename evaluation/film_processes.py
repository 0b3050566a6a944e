"""Processes that make films: one process for each game."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium

from evaluation.film import Picture, score_text
from evaluation.logged_game import LoggedGame, WrittenFilm
from machine.system_settings import lower_priority, use_one_thread
from option_flags import EnvironmentOptions
from processes.failures import WorkersFailedError
from processes.inside import Heartbeat
from processes.messages import Kind, send
from processes.pool import ChildPool, Ended, Member
from run_files.run_folder import remove_abandoned
from wrappers.environment import MakeWatchedEnvironment, Watch


@dataclass(frozen=True, kw_only=True)
class FilmProcess:
    """A process that writes the film of one game. It sends a WrittenFilm, or why there is none."""

    game: LoggedGame
    path: Path
    low_priority: bool

    def run(self, connection: Connection) -> None:
        use_one_thread()
        make = self._with_heartbeats(self.game.make_environment, Heartbeat(connection))
        heard = replace(self.game, make_environment=make)
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


class FilmProcesses:
    """Makes films in one folder. Announces the path of each finished film, or why it failed."""

    def __init__(self, folder: Path, announce: Callable[[str], None], children: ChildPool) -> None:
        self._folder = folder
        self._announce = announce
        self._children = children
        self._films: dict[Member, Path] = {}

    @property
    def under_way(self) -> bool:
        """Whether any film is unfinished."""
        return bool(self._films)

    def begin(self, game: LoggedGame, name: str, *, low_priority: bool) -> None:
        """Start a process that makes the film of a game. If it cannot start, announce why."""
        score = score_text(game.result.return_, thousands="")
        path = self._folder / f"{name}_game{game.result.game}_return{score}.mp4"
        process = FilmProcess(game=game, path=path, low_priority=low_priority)
        film = Member(f"film {name}", lambda starts: process, owes_at_start=1)
        try:
            self._folder.mkdir(exist_ok=True)
            self._children.add(film)
        except (OSError, WorkersFailedError) as error:
            self._announce(f"{path} could not be made: {getattr(error, 'strerror', None) or error}")
        else:
            self._films[film] = path

    def wait(self, timeout: float) -> None:
        """Wait for a message of a process, or for `timeout` seconds. Call it often: it also hears signs of life.

        Raises WorkersFailedError if the code of a process raises an exception or hangs.
        """
        for film, event in self._children.poll(timeout):
            if isinstance(event, Ended):
                failed = f"{self._films.pop(film)} could not be made: its process {event.in_words()}"
                if event.in_code:
                    raise WorkersFailedError(failed)
                self._announce(failed)
            elif event.kind == Kind.RESULT:
                self._conclude(film, event.payload)

    def _conclude(self, film: Member, outcome: WrittenFilm | str) -> None:
        """End the process, and announce its film or why there is none."""
        self._children.end(film)
        path = self._films.pop(film)
        if isinstance(outcome, str):
            self._announce(f"{path} could not be made: {outcome}")
            return
        self._announce(f"video     {path}, {outcome.frames:,} frames")
        if outcome.note:
            self._announce(outcome.note)

    def close(self) -> None:
        """Kill the processes that are still making films, and remove their unfinished files."""
        if self._films:
            self._announce("unfinished videos are dropped")
        self._films.clear()
        self._children.close()
        remove_abandoned(self._folder)
