"""The window that shows games: where there is none, and what closing it ends. Without a display."""

import sys
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation.film import HEIGHT, WIDTH, Picture
from evaluation.show_games import Window, WindowClosedError, open_window, show_in_window
from machine.stop_signals import StopSignals

PICTURE: Picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
RATE = Fraction(60)


class Seen:
    """In place of a window: the user closes it at a picture."""

    def __init__(self, closed_at: int) -> None:
        self.pictures, self._closed_at, self.is_closed = 0, closed_at, False

    def show(self, picture: Picture, frames_per_second: Fraction) -> None:
        self.pictures += 1
        if self.pictures == self._closed_at:
            raise WindowClosedError

    def close(self) -> None:
        self.is_closed = True


def games(stop: StopSignals, stops_at: int) -> list[Any]:
    """Two games of four pictures each; a signal comes at one of the pictures."""
    count = 0

    def play(show: Any) -> None:
        nonlocal count
        for _ in range(4):
            count += 1
            stop.requested = stop.requested or count == stops_at
            show(PICTURE)

    return [SimpleNamespace(play=play, format=SimpleNamespace(frames_per_second=RATE)) for _ in range(2)]


@pytest.mark.parametrize(
    ("closed_at", "stops_at", "shown", "calls"),
    [(0, 0, 8, 8), (6, 0, 6, 6), (0, 3, 2, 2)],
    ids=["to the end", "closed by the user", "stopped by a signal"],
)
def test_games_are_shown_until_the_window_is_closed(
    monkeypatch: pytest.MonkeyPatch, closed_at: int, stops_at: int, shown: int, calls: int
) -> None:
    monkeypatch.setattr("evaluation.show_games.Replay", lambda game: game)
    stop, window = StopSignals(), Seen(closed_at)
    meanwhile: list[None] = []
    show_in_window(window, games(stop, stops_at), stop, lambda: meanwhile.append(None))  # type: ignore[arg-type]
    assert (window.pictures, len(meanwhile), window.is_closed) == (shown, calls, True)


class FakeTk:
    def __init__(self) -> None:
        self.destroyed = False

    def title(self, text: str) -> None: ...

    def resizable(self, width: bool, height: bool) -> None: ...

    def protocol(self, name: str, call: Any) -> None:
        self.close = call

    def update(self) -> None: ...

    def destroy(self) -> None:
        self.destroyed = True


@pytest.fixture
def tkinter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """In place of tkinter, which not every Python has."""
    module = ModuleType("tkinter")
    roots: list[FakeTk] = []

    def make_root() -> FakeTk:
        roots.append(FakeTk())
        return roots[-1]

    shown: list[bytes] = []
    image = SimpleNamespace(configure=lambda **options: shown.append(options["data"]))
    for name, value in {
        "Tk": make_root,
        "PhotoImage": lambda **size: image,
        "Label": lambda *words, **options: SimpleNamespace(pack=lambda: None),
        "TclError": RuntimeError,
        "roots": roots,
        "shown": shown,
    }.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "tkinter", module)
    return module


def test_a_window_shows_pictures_until_it_is_closed(tkinter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":9")
    window = open_window("Pong")
    assert isinstance(window, Window)
    window.show(PICTURE, RATE)
    assert tkinter.shown == [b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + PICTURE.tobytes()]
    tkinter.roots[0].close()  # by the user
    assert tkinter.roots[0].destroyed
    with pytest.raises(WindowClosedError):
        window.show(PICTURE, RATE)
    window.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere, a display has no variable")
def test_why_there_is_no_window(tkinter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert open_window("Pong") == "there is no display"
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")

    def refuse() -> None:
        raise RuntimeError("couldn't connect to display")

    tkinter.Tk = refuse
    assert open_window("Pong") == "no window can be opened (couldn't connect to display)"
    monkeypatch.setitem(sys.modules, "tkinter", None)
    assert open_window("Pong") == "this Python has no tkinter"
