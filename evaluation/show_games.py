"""Shows games of a test: as films, which the players make, and in a window if there is a display."""

import time
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from evaluation.film import HEIGHT, WIDTH, Picture
from evaluation.logged_game import Replay, film_of
from evaluation.parallel_games import GameResult, GameSeries
from evaluation.players import PlayerPool
from evaluation.score_statistics import best_median_worst
from machine.stop_signals import StopSignals
from options.rules import counted
from run_files.run_folder import VIDEOS

POLL_SECONDS = 0.1


def show_games(
    series: GameSeries, results: Sequence[GameResult], result_path: Path, players: PlayerPool, stop: StopSignals
) -> None:
    """Film the best, the median and the worst game, and meanwhile show them in a window."""
    chosen = best_median_worst([result.return_ for result in results])
    games = {name: results[index] for name, index in chosen.items()}
    steps = sum(game.length for game in games.values())
    players.announce(f"showing the {', the '.join(games)} of {counted(len(results), 'game')}, {steps:,} steps")
    for name, game in games.items():
        players.film(game.game, film_of(series, game, result_path.parent / VIDEOS, f"{result_path.stem}_{name}"))
    show_in_window(series, list(games.values()), players, stop)
    while players.under_way and not stop.requested:
        players.wait(POLL_SECONDS)


def show_in_window(series: GameSeries, games: Sequence[GameResult], players: PlayerPool, stop: StopSignals) -> None:
    """Show one game after another, until the window is closed or a stop signal arrives; meanwhile, films are made."""
    try:
        window = Window(series.environment.env)
    except Exception as error:  # there is no display, or this Python has no tkinter
        players.announce(f"no window ({error}): videos only")
        return
    players.announce("you can close the window at any time; the videos are made in any case")
    with closing(window):
        for game in games:
            replay = Replay(series, game)
            for picture in replay.pictures():
                if stop.requested or not window.is_open:
                    return
                players.wait(0.0)
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
