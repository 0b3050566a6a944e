"""Films, read back with OpenCV's decoder, which is independent of their encoder."""

from pathlib import Path

import cv2
import numpy as np

from evaluation.film import GAME_WIDTH, HEIGHT, WIDTH, Film, Scene


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
