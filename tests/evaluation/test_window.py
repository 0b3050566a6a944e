"""The window that shows games, and in which a person plays: where there is none, and what ends it."""

import itertools
import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation.film import HEIGHT, WIDTH, Picture
from evaluation.parallel_games import GameLog, GameResult, GameSeries
from evaluation.play import play
from evaluation.recorded_games import RecordedGame, read_games
from evaluation.show_games import Window, show_in_window
from machine.stop_signals import StopSignals
from options.rules import UsageError
from tests.options.words import one_line, parse
from tests.permitted import PERMITTED
from tests.wrappers.hand_written import CATCH, options_of
from wrappers.make_environment import make_environment

PICTURE: Picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
RATE = Fraction(10**6)


class FakeTk:
    def __init__(self) -> None:
        self.destroyed = False
        self.at_update: Callable[[], None] = lambda: None
        self.press: Callable[[Any], None]
        self.release: Callable[[Any], None]

    def title(self, text: str) -> None: ...

    def resizable(self, width: bool, height: bool) -> None: ...

    def protocol(self, name: str, call: Any) -> None:
        self.close = call

    def bind(self, event: str, call: Callable[[Any], None]) -> None:
        setattr(self, {"<KeyPress>": "press", "<KeyRelease>": "release"}[event], call)

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


def show(stop: StopSignals) -> tuple[int, list[str]]:
    """Show two games that end after two of the three steps in their logs, so each has three pictures.

    Returns how often films were waited for meanwhile, and what was announced.
    """
    result = GameResult(0, 0.0, 3, False, GameLog(np.zeros(3, np.uint8), np.zeros(3, np.float32)))
    series = GameSeries(make_environment=make_environment, environment=options_of(CATCH), seed=(7,))
    waits: list[float] = []
    announced: list[str] = []
    players: Any = SimpleNamespace(wait=waits.append, announce=announced.append)
    show_in_window(series, [result] * 2, players, stop)
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


def played(folder: Path, env: str, *words: str) -> list[RecordedGame]:
    play(parse(["--op_mode=play", f"--env={env}", f"--demonstrations={folder}", *words]), make_environment)
    return list(read_games(str(folder)).values())


def test_a_person_plays_an_atari_game_with_the_arrow_keys(
    tkinter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Four frames of the game for each action; what the held keys have no action for does not count."""
    monkeypatch.setattr("evaluation.show_games.time.sleep", lambda seconds: None)
    keys = {16: ("press", "Right"), 40: ("press", "space"), 80: ("release", "Right"), 100: ("press", "Up")}

    def update() -> None:
        happens, key = keys.get(len(tkinter.shown), ("release", "x"))
        getattr(tkinter.root, happens)(SimpleNamespace(keysym=key))
        if len(tkinter.shown) == 120:
            tkinter.root.close()

    tkinter.root.at_update = update
    (game,) = played(tmp_path / "games", "PongNoFrameskip-v4", "--noop_threshold=0", "--nofire_on_reset")
    noop, fire, right, right_fire = 0, 1, 2, 4  # of NOOP, FIRE, RIGHT, LEFT, RIGHTFIRE, LEFTFIRE
    assert [action for action, _ in itertools.groupby(game.actions)] == [noop, right, right_fire, fire]
    assert (len(game.actions), game.return_) == (30, None)
    assert tkinter.root.destroyed


def test_a_person_plays_another_environment_with_the_numbers(
    tkinter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It waits for a key. A recorded game is the same when it is played again."""
    monkeypatch.setattr("evaluation.show_games.time.sleep", lambda seconds: None)

    def update() -> None:
        shown = len(tkinter.shown)
        tkinter.root.press(SimpleNamespace(keysym="291"[shown // 2 % 3] if shown % 2 else "Up"))
        if shown == 200:
            tkinter.root.close()

    tkinter.root.at_update = update
    games = played(tmp_path / "games", CATCH, "--seed=3")
    assert len(games) > 2 and games[-1].return_ is None
    for game in games:
        environment = make_environment(game.options, 0)
        environment.reset(seed=game.seed)
        ends = [environment.step(action)[2] for action in game.actions.tolist()]
        assert not any(ends[:-1]) and ends[-1] == (game.return_ is not None)
        assert game.return_ in (None, sum(game.actions.tolist()))
        assert set(game.actions.tolist()) <= {1, 2}


def test_a_key_of_an_action_that_is_masked_is_no_action(
    tkinter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The environment raises an exception for each of these actions."""
    monkeypatch.setattr("evaluation.show_games.time.sleep", lambda seconds: None)

    def update() -> None:
        tkinter.root.press(SimpleNamespace(keysym=str(len(tkinter.shown) % 10)))
        if len(tkinter.shown) == 200:
            tkinter.root.close()

    tkinter.root.at_update = update
    arguments = json.dumps({"factors": 0, "source": "info"})
    games = played(tmp_path / "games", PERMITTED, f"--env_kwargs={arguments}", "--seed=3")
    assert sum(len(game.actions) for game in games) > 2


@pytest.mark.parametrize(
    ("env", "words", "sentence"),
    [
        (CATCH, ("--demonstrations=unset",), "needs --demonstrations, the folder for the recorded games"),
        (CATCH, ("--interaction=asynchronous", "--action_delay=1"), "--interaction=turns would be right"),
        ("Pendulum-v1", (), "needs a choice between actions, which --env=Pendulum-v1 has not"),
        (CATCH, ("--demonstrations=/dev/null/games",), "cannot be made (Not a directory)"),
    ],
)
def test_what_nobody_can_play_is_refused(
    tkinter: Any, tmp_path: Path, env: str, words: tuple[str, ...], sentence: str
) -> None:
    given = [f"--env={env}", *words]
    if "demonstrations" not in str(words):
        given.append(f"--demonstrations={tmp_path / 'games'}")
    with pytest.raises(UsageError) as refused:
        play(parse(["--op_mode=play", *given]), make_environment)
    assert sentence in one_line(refused.value)
    assert not list(tmp_path.iterdir())


def test_playing_needs_a_display(tkinter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tkinter", None)
    with pytest.raises(UsageError, match=r"^--op_mode=play needs a display, and a Python with tkinter"):
        played(tmp_path / "games", CATCH)
    assert not list(tmp_path.iterdir())
