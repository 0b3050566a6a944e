"""The scripts for the README's pictures draw and choose correctly."""

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from reports.console import LiveConsole
from tests.benchmarks.console_picture import console_svg, draw, words_of
from tests.benchmarks.game_film import as_gif, best_part
from tests.benchmarks.pictures import DISPLAY_SECONDS, DRAWN, PICTURES, kept_run, panels_of, panels_today
from tests.reports.statuses import STATUS, changed


@pytest.mark.parametrize("name", ["dashboard", *DRAWN])
@pytest.mark.slow
def test_a_picture_shows_what_the_program_shows_today(name: str, tmp_path: Path) -> None:
    """If not, `python -m tests.benchmarks.pictures` draws it anew."""
    assert panels_of(PICTURES / f"{name}.png") == panels_today(name, kept_run(tmp_path))


@pytest.mark.slow
def test_the_picture_of_the_display_is_what_the_program_shows_today(tmp_path: Path) -> None:
    today = console_svg(kept_run(tmp_path), DISPLAY_SECONDS).decode()
    assert words_of((PICTURES / "console.svg").read_text(encoding="utf-8")) == words_of(today)


def test_the_picture_of_the_console_has_the_header_and_the_last_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "101")
    monkeypatch.setenv("LINES", "40")
    stream = io.StringIO()
    console = LiveConsole(stream)
    console.start(["results in results/Pong_1"])
    for second in range(4):
        console.show(changed(STATUS, episodes=1000 + second), float(second))
    console.close(["resume with: python main.py"])
    svg = draw(stream.getvalue(), "python main.py").decode()
    text = "".join(ElementTree.fromstring(svg).itertext()).replace("\xa0", " ")
    assert "results in results/Pong_1" in text and "python main.py" in text
    assert "1,003" in text and "816 MB" in text
    assert not any(word in text for word in ("1,000 ", "1,002", "go on with", "\x1b"))
    colours = set(re.findall(r"fill: (#[0-9a-f]{6})", svg))
    assert len(colours) >= 3


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
