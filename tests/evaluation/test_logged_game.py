"""Games that are played again from the log of their actions: the same ones, and ones that differ."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest

from evaluation.film import Picture, Scene, score_text
from evaluation.logged_game import Replay, film_of
from evaluation.parallel_games import GameLog, GameResult, GameSeries, evaluation_options, game_streams
from option_flags import EnvironmentOptions
from tests.wrappers.hand_written import CATCH, Catch, options_of
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.environment import Watch
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
    return AnyEnvironment(game, options, seed, watch)


def logged(return_: float, steps: int, make: Any = make_fractions) -> tuple[GameSeries, GameResult]:
    log = GameLog(np.full(steps, 2, np.uint8), np.zeros(steps, np.float32))
    result = GameResult(3, return_, steps, False, log)
    return GameSeries(make_environment=make, environment=options_of(CATCH), seed=(7,)), result


def test_a_game_is_repeated_if_the_environment_honours_its_seed() -> None:
    environment = make_environment(options_of(CATCH), 0)
    environment.reset(seed=game_streams((7,), 3)[0])
    steps, ended = 0, False
    while not ended:
        steps += 1
        _, _, terminated, truncated, _ = environment.step(2)
        ended = terminated or truncated
    replay = Replay(*logged(2.0 * steps, steps, make_environment))
    assert len(list(replay.pictures())) == steps + 1
    assert replay.is_same


@pytest.mark.parametrize(
    ("return_", "steps", "pictures", "same"),
    [(0.96, 10, 11, True), (0.96, 12, 11, False), (0.864, 9, 10, False), (1.96, 10, 11, False)],
)
def test_a_game_that_ends_otherwise_differs(return_: float, steps: int, pictures: int, same: bool) -> None:
    replay = Replay(*logged(return_, steps))
    assert len(list(replay.pictures())) == pictures
    assert replay.is_same == same


def test_a_film_has_its_score_in_its_name_and_the_user_is_told_of_one_of_another_game(tmp_path: Path) -> None:
    same, other = (film_of(*logged(0.96, steps), tmp_path / "videos", f"{steps}") for steps in (10, 12))
    made = [f"video     {tmp_path}/videos/{steps}_game3_return0.96.mp4, 11 frames" for steps in (10, 12)]
    assert same.make(lambda: None) == made[:1]
    assert other.make(lambda: None) == [made[1], NOTE]
    capture = cv2.VideoCapture(str(other.path))
    assert (capture.get(cv2.CAP_PROP_FPS), capture.get(cv2.CAP_PROP_FRAME_COUNT)) == (20, 40)
    nowhere = film_of(*logged(0.96, 10), tmp_path / "no" / "folder", "best")
    assert nowhere.make(lambda: None) == [f"{nowhere.path} could not be made: No such file or directory"]


def rows_of_a_film(monkeypatch: pytest.MonkeyPatch, env: str, action: int) -> tuple[list[dict[str, str]], float]:
    """What stands beside the pictures of a game in which the agent does the same all the time, and its return."""
    options = evaluation_options(options_of(env, max_game_frames=400))
    environment = make_environment(options, 0)
    environment.reset(seed=game_streams((7,), 3)[0])
    steps, ended = 0, False
    while not ended:
        steps += 1
        _, _, terminated, truncated, _ = environment.step(action)
        ended = terminated or truncated
    ((game_return, *_),) = environment.get_wrapper_attr("take_finished_games")()
    log = GameLog(np.full(steps, action, np.uint8), np.zeros(steps, np.float32))
    result = GameResult(3, game_return, steps, True, log)
    series = GameSeries(make_environment=make_environment, environment=options, seed=(7,))
    drawn: list[dict[str, str]] = []

    def note(scene: Scene, screen: Picture, rows: dict[str, str]) -> Picture:
        drawn.append(rows)
        return screen

    monkeypatch.setattr(Scene, "draw", note)
    replay = Replay(series, result)
    assert list(replay.pictures()) and replay.is_same
    return drawn, game_return


def test_a_film_ends_with_the_return_of_its_game(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Skiing, every frame has a reward, and those before the first step of the agent do not count."""
    rows, game_return = rows_of_a_film(monkeypatch, "SkiingNoFrameskip-v4", 1)
    assert game_return < 0 and rows[-1]["score"] == score_text(game_return)
    assert {row["score"] for row in rows if row["step"] == "0"} == {"0"}


def test_the_time_follows_the_rate_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_drawn: list[dict[str, str]] = []
    draw: Callable[..., Picture] = Scene.draw

    def note(scene: Scene, screen: Picture, rows: dict[str, str]) -> Picture:
        rows_drawn.append(rows)
        return draw(scene, screen, rows)

    monkeypatch.setattr(Scene, "draw", note)
    monkeypatch.setattr(Fractions, "metadata", {"render_fps": 5})
    replay = Replay(*logged(0.96, 10))
    assert list(replay.pictures())
    assert replay.format.frames_per_second == 5
    assert [rows["time"] for rows in rows_drawn] == ["0:00"] * 5 + ["0:01"] * 5 + ["0:02"]
    assert rows_drawn[-1]["score"] == "0.96"
