"""Films, read back with OpenCV's decoder, which is independent of their encoder."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest

from evaluation.film import (
    BACKGROUND,
    GAME_WIDTH,
    HEIGHT,
    WIDTH,
    Film,
    FilmFormat,
    Picture,
    Scene,
    film_format,
    score_text,
)
from tests.wrappers.hand_written import options_of
from wrappers.make_environment import make_environment


def test_a_film_holds_every_picture(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    with path.open("xb") as file, Film(file) as film:
        scene = Scene("Pong", "game 1")
        for frame in range(37):
            screen = np.zeros((210, 160, 3), np.uint8)
            screen[:, : 4 * frame, 0] = 255  # a red bar that grows
            film.add(scene.draw(screen, {"score": str(frame)}))
    assert film.frames == 37

    capture = cv2.VideoCapture(str(path))
    assert capture.get(cv2.CAP_PROP_FPS) == 60
    pictures = []
    while (read := capture.read())[0]:
        pictures.append(read[1])
    assert [picture.shape for picture in pictures] == [(HEIGHT, WIDTH, 3)] * 37
    for frame, picture in enumerate(pictures):
        red = picture[HEIGHT // 2, :GAME_WIDTH, 2] > 128
        assert abs(int(red.sum()) - 16 * frame) <= 2


def test_a_picture_shows_the_game_evenly_and_text_beside_it() -> None:
    scene = Scene("Pong", "game 1")
    screen = np.zeros((210, 160, 3), np.uint8)
    screen[::2] = 255  # every other line
    first = scene.draw(screen, {"score": "1", "action": "A" * 99}).copy()
    assert first.shape == (HEIGHT, WIDTH, 3)
    assert abs(first[:, :GAME_WIDTH].mean() - 127.5) < 1
    lines = first[:, 0, 0].astype(float).reshape(16, 30).mean(1)
    assert np.ptp(lines) < 25
    second = scene.draw(screen, {"score": "2", "action": "A" * 99})
    changed = (first != second).any(axis=(1, 2))
    assert 0 < changed.sum() < 40, "only the row of the score was drawn again"
    assert (first[:, -8:] == first[0, -1]).all(), "text that is too long for the panel is written smaller"


@pytest.mark.parametrize(("height", "width"), [(192, 192), (400, 600), (24, 160), (1000, 300), (1, 4000)])
def test_a_picture_keeps_its_proportions(height: int, width: int) -> None:
    scene = Scene("MiniGrid", "game 1", stretched=False)
    scene.draw(np.full((480, 640, 3), 255, np.uint8), {})  # a larger picture before it leaves nothing
    shown = scene.draw(np.full((height, width, 3), 255, np.uint8), {})[:, :GAME_WIDTH]
    white = (shown == 255).all(axis=2)
    assert ((shown == BACKGROUND).all(axis=2) | white).all(), "only the picture, and the background beside it"
    rows, columns = (np.flatnonzero(white.any(axis=axis)) for axis in (1, 0))
    assert white.sum() == len(rows) * len(columns)
    assert len(rows) == HEIGHT or len(columns) == GAME_WIDTH, "as large as fits"
    assert abs(len(columns) * height - len(rows) * width) <= max(height, width)
    assert abs(rows[0] - (HEIGHT - 1 - rows[-1])) <= 1 and abs(columns[0] - (GAME_WIDTH - 1 - columns[-1])) <= 1


@pytest.mark.parametrize(
    ("env", "arguments", "rate"),
    [
        ("PongNoFrameskip-v4", "{}", 60),
        ("ALE/Pong-v5", "{}", 15),
        ("ale_py:ALE/Pong-v5", '{"frameskip": 2}', 30),
    ],
)
def test_films_of_atari_games_are_those_of_a_television(env: str, arguments: str, rate: int) -> None:
    environment = make_environment(options_of(env, env_kwargs=arguments), 0)
    assert film_format(env, environment) == FilmFormat(Fraction(rate), stretched=True, shortest=0)


def with_metadata(metadata: Any) -> gymnasium.Env[Any, Any]:
    environment: gymnasium.Env[Any, Any] = gymnasium.Env()
    environment.metadata = metadata
    return environment


@pytest.mark.parametrize(
    ("metadata", "rate"),
    [
        ({"render_fps": 50}, 50),
        ({"render_fps": np.int64(4)}, 4),
        ({"render_fps": 29.97002997}, Fraction(30_000, 1001)),
        *[({"render_fps": nonsense}, 30) for nonsense in (None, 0, -1, 10**400, float("nan"), "50", True, [50])],
        ({}, 30),
        (None, 30),
    ],
)
def test_the_rate_of_other_films_is_that_of_the_environment(metadata: Any, rate: Fraction) -> None:
    assert film_format("CartPole-v1", with_metadata(metadata)).frames_per_second == rate


@pytest.mark.parametrize(("rate", "added", "written"), [(10, 3, 20), (10, 21, 21), (29.97002997, 1, 60)])
def test_the_last_picture_of_a_short_film_is_held(tmp_path: Path, rate: float, added: int, written: int) -> None:
    path = tmp_path / "film.mp4"
    scene = Scene("MiniGrid", "game 1", stretched=False)
    with path.open("xb") as file, Film(file, film_format("MiniGrid-v0", with_metadata({"render_fps": rate}))) as film:
        for number in range(added):
            film.add(scene.draw(np.full((48, 64, 3), 255 * (number + 1 == added), np.uint8), {}))
    assert film.frames == added
    capture = cv2.VideoCapture(str(path))
    assert capture.get(cv2.CAP_PROP_FPS) == pytest.approx(rate)
    brightness = [picture[HEIGHT // 2, GAME_WIDTH // 2, 0] for picture in pictures_of(capture)]
    assert len(brightness) == written
    assert [value > 128 for value in brightness] == [number + 1 >= added for number in range(written)]


def pictures_of(capture: cv2.VideoCapture) -> list[Picture]:
    pictures = []
    while (read := capture.read())[0]:
        pictures.append(np.asarray(read[1], np.uint8))
    return pictures


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (0.0, "0"),
        (0.96, "0.96"),
        (0.5, "0.5"),
        (-0.001, "0"),
        (2.9999999, "3"),
        (-1203.456, "-1,203.46"),
        (100.0, "100"),
        (1e6, "1,000,000"),
    ],
)
def test_a_score_has_two_decimals_at_most(score: float, text: str) -> None:
    assert score_text(score) == text
    assert score_text(score, thousands="") == text.replace(",", "")
