"""Shows games of a test: as films, which processes of their own make, and in a window if there is a display."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path

from evaluation.film import HEIGHT, WIDTH, Picture, score_text
from evaluation.logged_game import LoggedGame, Replay, WrittenFilm
from evaluation.parallel_games import GameResult, GameSeries
from evaluation.score_statistics import best_median_worst
from machine.stop_signals import StopSignals
from machine.system_settings import lower_priority, use_one_thread
from processes.inside import Heartbeat
from processes.messages import Kind, send
from processes.pool import ChildPool, Ended, Member, WorkersFailedError
from run_files.run_folder import VIDEOS, remove_abandoned

POLL_SECONDS = 0.1


def show_games(
    series: GameSeries,
    results: Sequence[GameResult],
    result_path: Path,
    children: ChildPool,
    stop: StopSignals,
) -> None:
    """Film the best, the median and the worst game, and meanwhile show them in a window."""
    chosen = best_median_worst([result.return_ for result in results])
    games = {name: LoggedGame(series, results[index]) for name, index in chosen.items()}
    announce = children.announce
    steps = sum(game.result.length for game in games.values())
    announce(f"showing the {', the '.join(games)} of the first {len(results)} games, {steps:,} steps")
    with closing(FilmProcesses(result_path.parent / VIDEOS, children)) as films:
        for name, game in games.items():
            films.begin(game, f"{result_path.stem}_{name}")
        show_in_window(list(games.values()), films, stop, announce)
        while films.under_way and not stop.requested:
            films.wait(POLL_SECONDS)


@dataclass(frozen=True)
class FilmProcess:
    """A process that writes the film of one game. It sends a WrittenFilm, or why there is none."""

    game: LoggedGame
    path: Path
    low_priority: bool

    def run(self, connection: Connection) -> None:
        use_one_thread()
        alive = Heartbeat(connection)
        replay = Replay(self.game)
        alive()
        if self.low_priority:  # not before: code is imported for the environment, in one silence
            lower_priority()
        try:
            send(connection, Kind.RESULT, payload=replay.write_film(self.path, alive))
        except OSError as error:
            send(connection, Kind.RESULT, payload=error.strerror or str(error))


class FilmProcesses:
    """Makes films in one folder. Announces the path of each finished film, or why it failed."""

    def __init__(self, folder: Path, children: ChildPool) -> None:
        self._folder = folder
        self._children = children
        self._announce = children.announce
        self._films: dict[Member, Path] = {}  # that are unfinished

    @property
    def under_way(self) -> bool:
        """Whether any film is unfinished."""
        return bool(self._films)

    def begin(self, game: LoggedGame, name: str, *, low_priority: bool = False) -> None:
        """Start a process that makes the film of a game. If it cannot start, announce why."""
        score = score_text(game.result.return_, thousands="")
        path = self._folder / f"{name}_game{game.result.game}_return{score}.mp4"
        process = FilmProcess(game, path, low_priority)
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
            if film not in self._films:  # the end of a process whose result was heard in the same poll
                continue
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


def show_in_window(
    games: Sequence[LoggedGame], films: FilmProcesses, stop: StopSignals, announce: Callable[[str], None]
) -> None:
    """Show one game after another, until the window is closed or a stop signal arrives; meanwhile, films are made."""
    try:
        window = Window(games[0].series.environment.env)
    except Exception as error:  # there is no display, or this Python has no tkinter
        announce(f"no window ({error}): videos only")
        return
    announce("you can close the window at any time; the videos are made in any case")
    with closing(window):
        for game in games:
            replay = Replay(game)
            for picture in replay.pictures():
                if stop.requested or not window.is_open:
                    return
                films.wait(0.0)
                window.show(picture, replay.format.frames_per_second)


class Window:
    """A window with a picture. Making it fails where there is no display."""

    def __init__(self, title: str) -> None:
        import tkinter  # noqa: PLC0415  # not part of every Python

        self._error = tkinter.TclError
        self._root = tkinter.Tk()
        self._root.title(title)
        self._root.resizable(False, False)
        self._root.protocol("WM_DELETE_WINDOW", self.close)
        self._image = tkinter.PhotoImage(width=WIDTH, height=HEIGHT)
        tkinter.Label(self._root, image=self._image, borderwidth=0).pack()
        self.is_open = True
        self._next = 0.0

    def show(self, picture: Picture, frames_per_second: Fraction) -> None:
        """Wait until it is time for the next frame, then show the picture `[HEIGHT, WIDTH, 3]`."""
        now = time.monotonic()
        if self._next > now:
            time.sleep(self._next - now)
        self._next = max(self._next, now) + float(1 / frames_per_second)
        try:
            self._image.configure(data=b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + picture.tobytes())
            self._root.update()
        except self._error:
            self.is_open = False

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._root.destroy()
