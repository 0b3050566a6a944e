"""Games that are played again from the log of their actions: the same ones, and ones that differ."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest

from evaluation.film import Picture, Scene
from evaluation.film_processes import FilmProcesses
from evaluation.logged_game import LoggedGame, WrittenFilm
from evaluation.parallel_games import GameLog, GameResult, game_streams
from option_flags import EnvironmentOptions
from tests.wrappers.hand_written import CATCH, Catch, options_of
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.film_frames import FilmFrames
from wrappers.film_frames import Watch
from wrappers.make_environment import make_environment

NOTE = "the film of game 3 differs from the game that was scored: the environment does not repeat a game from its seed"


class Fractions(Catch):
    """A game of ten steps, whose rewards are no whole numbers, with 20 pictures a second."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        self._left = 10
        return super().reset(**more)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self._left > 0, "stepped on after its end"
        self._left -= 1
        return self._seen(), 0.096, self._left == 0, False, {}


def make_fractions(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> gymnasium.Env[Any, Any]:
    game: gymnasium.Env[Any, Any] = Fractions()
    return AnyEnvironment(game if watch is None else FilmFrames(game, options.env, watch), options, seed)


def logged(return_: float, steps: int, make: Any = make_fractions) -> LoggedGame:
    log = GameLog(np.full(steps, 2, np.uint8), np.zeros(steps, np.float32))
    result = GameResult(3, return_, steps, False, log)
    return LoggedGame(make_environment=make, environment=options_of(CATCH), seed=(7,), result=result, policy="sampled")


def test_a_game_is_repeated_if_the_environment_honours_its_seed() -> None:
    environment = make_environment(options_of(CATCH), 0)
    environment.reset(seed=game_streams((7,), 3)[0])
    steps, ended = 0, False
    while not ended:
        steps += 1
        _, _, terminated, truncated, _ = environment.step(2)
        ended = terminated or truncated
    shown: list[None] = []
    assert logged(2.0 * steps, steps, make_environment).play_back(lambda picture, rate: shown.append(None))
    assert len(shown) == steps + 1


@pytest.mark.parametrize(
    ("return_", "steps", "pictures", "same"),
    [(0.96, 10, 11, True), (0.96, 12, 11, False), (0.864, 9, 10, False), (1.96, 10, 11, False)],
)
def test_a_game_that_ends_otherwise_differs(return_: float, steps: int, pictures: int, same: bool) -> None:
    shown: list[None] = []
    assert logged(return_, steps).play_back(lambda picture, rate: shown.append(None)) == same
    assert len(shown) == pictures


def test_the_user_is_told_of_a_film_of_another_game(tmp_path: Path) -> None:
    same, other = logged(0.96, 10), logged(0.96, 12)
    assert same.write_film(tmp_path / "same.mp4") == WrittenFilm(11, "")
    assert other.write_film(tmp_path / "other.mp4") == WrittenFilm(11, NOTE)
    capture = cv2.VideoCapture(str(tmp_path / "other.mp4"))
    assert (capture.get(cv2.CAP_PROP_FPS), capture.get(cv2.CAP_PROP_FRAME_COUNT)) == (20, 40)


@pytest.mark.slow
def test_a_film_has_its_score_in_its_name(tmp_path: Path) -> None:
    announced: list[str] = []
    films = FilmProcesses(tmp_path, announced.append)
    films.begin(logged(0.96, 12), "best", low_priority=False)
    while films.under_way:
        films.wait(1.0)
    path = tmp_path / "best_game3_return0.96.mp4"
    assert announced == [f"video     {path}, 11 frames", NOTE]
    assert list(tmp_path.iterdir()) == [path]


def test_the_time_follows_the_rate_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_drawn: list[dict[str, str]] = []
    draw: Callable[..., Picture] = Scene.draw

    def note(scene: Scene, screen: Picture, rows: dict[str, str]) -> Picture:
        rows_drawn.append(rows)
        return draw(scene, screen, rows)

    monkeypatch.setattr(Scene, "draw", note)
    monkeypatch.setattr(Fractions, "metadata", {"render_fps": 5})
    rates: list[float] = []
    logged(0.96, 10).play_back(lambda picture, rate: rates.append(float(rate)))
    assert rates == [5.0] * 11
    assert [rows["time"] for rows in rows_drawn] == ["0:00"] * 5 + ["0:01"] * 5 + ["0:02"]
    assert rows_drawn[-1]["score"] == "0.96"
