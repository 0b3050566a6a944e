"""The scripts for the README's pictures draw and choose correctly."""

import io

import numpy as np
from PIL import Image

from reports.film_gif import as_gif
from reports.run_display import ACCENT
from tests.benchmarks.console_picture import BACKGROUND, CELL_HEIGHT, CELL_WIDTH, COLOURS, MARGIN, draw
from tests.benchmarks.game_film import best_part
from tests.terminal import Screen


def test_a_screen_is_drawn_character_by_character_in_its_colours() -> None:
    screen = Screen(20, 5)
    screen.feed(f"\n  \x1b[{ACCENT}m━━\x1b[0m━ x\n")
    with Image.open(io.BytesIO(draw(screen.cells))) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape == (2 * MARGIN + 2 * CELL_HEIGHT, 2 * MARGIN + 7 * CELL_WIDTH, 3)
    drawn = (pixels != BACKGROUND).any(axis=2)
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    assert rows[0] >= MARGIN + CELL_HEIGHT and rows[-1] < MARGIN + 2 * CELL_HEIGHT
    bar = MARGIN + np.arange(2 * CELL_WIDTH, 5 * CELL_WIDTH)
    assert set(bar) <= set(columns), "a bar has no gaps"
    assert not set(MARGIN + np.arange(5 * CELL_WIDTH + 1, 6 * CELL_WIDTH)) & set(columns)
    shown = {tuple(colour) for colour in pixels[drawn]}
    assert {COLOURS[ACCENT], COLOURS[""]} <= shown


def test_the_best_part_has_the_most_points_and_some_seconds_around_them() -> None:
    scores = np.zeros(100)
    scores[20:] -= 1
    scores[50:] += 1
    scores[54:] += 2
    begin = best_part(scores.tolist(), 10)
    assert scores[begin + 10] - scores[begin] == 3
    assert 50 - begin > 1 and begin + 10 - 54 > 1
    assert best_part([0.0, 1.0], 10) == 0


def test_an_animation_keeps_the_colours_of_small_things() -> None:
    pictures = [Image.new("RGB", (120, 60), (140, 70, 20)) for _ in range(40)]
    for number, picture in enumerate(pictures):
        picture.paste((236, 236, 236), (2 * number, 30, 2 * number + 3, 33))
    with Image.open(io.BytesIO(as_gif(pictures, 20))) as gif:
        assert gif.info["duration"] == 50
        assert gif.n_frames == len(pictures)  # type: ignore[attr-defined]
        gif.seek(25)
        pixels = np.asarray(gif.convert("RGB")).astype(int)
    assert np.abs(pixels[31, 51] - 236).max() < 12
    assert np.abs(pixels[10, 51] - (140, 70, 20)).max() < 12
