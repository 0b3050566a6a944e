"""The window that shows games: where there is none, and what closing it ends. Without a display."""

import sys
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation.film import HEIGHT, WIDTH, Picture
from evaluation.logged_game import LoggedGame
from evaluation.parallel_games import GameLog, GameResult, GameSeries
from evaluation.show_games import Window, show_in_window
from machine.stop_signals import StopSignals
from tests.wrappers.hand_written import CATCH, options_of
from wrappers.make_environment import make_environment

PICTURE: Picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
RATE = Fraction(10**6)


class FakeTk:
    def __init__(self) -> None:
        self.destroyed = False
        self.at_update: Callable[[], None] = lambda: None

    def title(self, text: str) -> None: ...

    def resizable(self, width: bool, height: bool) -> None: ...

    def protocol(self, name: str, call: Any) -> None:
        self.close = call

    def update(self) -> None:
        self.at_update()

    def destroy(self) -> None:
        self.destroyed = True


@pytest.fixture
def tkinter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """In place of tkinter, which not every Python has."""
    module: Any = ModuleType("tkinter")
    module.root, module.shown, module.TclError = FakeTk(), [], RuntimeError
    image = SimpleNamespace(configure=lambda **options: module.shown.append(options["data"]))
    module.Tk = lambda: module.root
    module.PhotoImage = lambda **size: image
    module.Label = lambda *words, **options: SimpleNamespace(pack=lambda: None)
    monkeypatch.setitem(sys.modules, "tkinter", module)
    return module


def games() -> list[LoggedGame]:
    """Two games that end after two of the three steps in their logs, so each has three pictures."""
    result = GameResult(0, 0.0, 3, False, GameLog(np.zeros(3, np.uint8), np.zeros(3, np.float32)))
    series = GameSeries(make_environment=make_environment, environment=options_of(CATCH), seed=(7,))
    return [LoggedGame(series, result)] * 2


def show(stop: StopSignals) -> tuple[int, list[str]]:
    """Show the games. Returns how often films were waited for meanwhile, and what was announced."""
    waits: list[float] = []
    announced: list[str] = []
    players: Any = SimpleNamespace(wait=waits.append, announce=announced.append)
    show_in_window(games(), players, stop)
    return len(waits), announced


@pytest.mark.parametrize(
    ("closed_at", "stops_at", "shown"),
    [(0, 0, 6), (5, 0, 5), (0, 3, 3)],
    ids=["to the end", "closed by the user", "stopped by a signal"],
)
def test_games_are_shown_until_the_window_is_closed(
    tkinter: Any, monkeypatch: pytest.MonkeyPatch, closed_at: int, stops_at: int, shown: int
) -> None:
    stop = StopSignals()
    monkeypatch.setattr("evaluation.show_games.time.sleep", lambda seconds: None)

    def update() -> None:
        if len(tkinter.shown) == closed_at:
            tkinter.root.close()
        stop.requested = len(tkinter.shown) == stops_at

    tkinter.root.at_update = update
    waits, announced = show(stop)
    assert (len(tkinter.shown), waits, tkinter.root.destroyed) == (shown, shown, True)
    assert announced == ["you can close the window at any time; the videos are made in any case"]


def test_a_window_shows_pictures_until_it_is_closed(tkinter: Any) -> None:
    window = Window("Pong")
    window.show(PICTURE, RATE)
    assert tkinter.shown == [b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + PICTURE.tobytes()]
    tkinter.root.close()  # by the user
    assert not window.is_open
    window.close()


def test_why_there_is_no_window(tkinter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("couldn't connect to display")

    tkinter.Tk = refuse
    assert show(StopSignals()) == (0, ["no window (couldn't connect to display): videos only"])
    monkeypatch.setitem(sys.modules, "tkinter", None)
    assert "videos only" in show(StopSignals())[1][0]
