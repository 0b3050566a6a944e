"""Pictures of a game for people (its screen, with a panel of text beside it), and films made of them.

Films are H.264, which every browser and video player can show, encoded with PyAV. OpenCV's own encoders do not suit: no
browser plays its MPEG-4, and its VP9 is many times slower.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import av
import cv2
import gymnasium
import numpy as np
from numpy.typing import NDArray

from options.presets import is_noframeskip
from wrappers.environment import own_rate

Picture: TypeAlias = NDArray[np.uint8]  # [height, width, 3], RGB

FRAMES_PER_SECOND = 60  # of Atari games
USUAL_FRAMESKIP = 4  # frames in a step of an Atari game with one of Gymnasium's ids
FILM_RATE = 30  # of environments that do not name theirs
SHORTEST_FILM = 2  # seconds; a shorter film is over before one has seen anything
GAME_WIDTH, HEIGHT = 640, 480  # 4:3, the format of the televisions that Atari games were made for
PANEL_WIDTH = 240
WIDTH = GAME_WIDTH + PANEL_WIDTH

BACKGROUND, LABEL, VALUE = (24, 26, 30), (140, 146, 156), (236, 238, 242)
FONT = cv2.FONT_HERSHEY_SIMPLEX
MARGIN, FIRST_ROW, ROW_HEIGHT = 20, 100, 62


class FilmFormat(NamedTuple):
    """What depends on the environment in its films."""

    frames_per_second: Fraction
    stretched: bool  # pictures fill the 4:3 of a television; otherwise they keep their proportions
    shortest: int  # seconds; the last picture of a shorter film is held


ATARI_FORMAT = FilmFormat(Fraction(FRAMES_PER_SECOND), stretched=True, shortest=0)


def film_format(env: str, environment: gymnasium.Env[Any, Any]) -> FilmFormat:
    """The format for the environment, whose id is `env`."""
    if is_noframeskip(env):
        return ATARI_FORMAT
    if env.rpartition(":")[2].startswith("ALE/"):  # it skips frames itself, so a film has only the last one of a step
        spec = environment.get_wrapper_attr("env").spec
        skip = spec.kwargs.get("frameskip") if spec is not None else None
        each = skip if isinstance(skip, int) else USUAL_FRAMESKIP
        return ATARI_FORMAT._replace(frames_per_second=Fraction(FRAMES_PER_SECOND, each))
    rate = Fraction(own_rate(environment) or FILM_RATE).limit_denominator(1001)  # 1001: television's 29.97
    return FilmFormat(rate, stretched=False, shortest=SHORTEST_FILM)


def score_text(score: float, thousands: str = ",") -> str:
    """A score with up to two decimals, if it is not whole. `thousands` is between groups of three digits."""
    text = f"{round(score, 2) + 0.0:{thousands}.2f}"  # + 0.0 turns -0.0 into 0.0
    return text.rstrip("0").removesuffix(".")


class Scene:
    """Draws pictures: the game on the left; a heading and rows of labels with values on the right."""

    def __init__(self, heading: str, subheading: str, *, stretched: bool = True) -> None:
        """`stretched` is that of `FilmFormat`."""
        self._stretched = stretched
        self._canvas: Picture = np.full((HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
        self._write(heading, 42, 0.75, VALUE)
        self._write(subheading, 68, 0.48, LABEL)

    def draw(self, screen: Picture, rows: Mapping[str, str]) -> Picture:
        """The picture `[HEIGHT, WIDTH, 3]`. The next call overwrites it."""
        self._draw_screen(screen)
        for row, (label, value) in enumerate(rows.items()):
            top = FIRST_ROW + row * ROW_HEIGHT
            cv2.rectangle(self._canvas, (GAME_WIDTH, top), (WIDTH, top + ROW_HEIGHT - 1), BACKGROUND, cv2.FILLED)
            self._write(label, top + 18, 0.48, LABEL)
            self._write(value, top + 46, 0.8, VALUE)
        return self._canvas

    def _draw_screen(self, screen: Picture) -> None:
        """Over the whole left part, or as large as fits in its middle, with the background beside it."""
        height, width = screen.shape[:2]
        scale = min(HEIGHT / height, GAME_WIDTH / width)
        fitted = max(1, round(scale * width)), max(1, round(scale * height))
        new_width, new_height = (GAME_WIDTH, HEIGHT) if self._stretched else fitted
        # Enlarged by whole factors and then reduced, so that all lines become equally thick and sharp.
        high, wide = math.ceil(new_height / height) * height, math.ceil(new_width / width) * width
        drawn: Any = screen
        for large, size in ((width, high), (width, new_height)), ((wide, new_height), (new_width, new_height)):
            drawn = cv2.resize(drawn, large, interpolation=cv2.INTER_NEAREST)
            drawn = cv2.resize(drawn, size, interpolation=cv2.INTER_AREA)
        top, left = (HEIGHT - new_height) // 2, (GAME_WIDTH - new_width) // 2
        cv2.rectangle(self._canvas, (0, 0), (GAME_WIDTH - 1, HEIGHT - 1), BACKGROUND, cv2.FILLED)  # sizes may differ
        self._canvas[top : top + new_height, left : left + new_width] = drawn

    def _write(self, text: str, y: int, size: float, colour: tuple[int, int, int]) -> None:
        """Write one line of text, smaller if it is too long for the panel."""
        width = cv2.getTextSize(text, FONT, size, 1)[0][0]
        size *= min(1.0, (PANEL_WIDTH - 2 * MARGIN) / max(1, width))
        cv2.putText(self._canvas, text, (GAME_WIDTH + MARGIN, y), FONT, size, colour, 1, cv2.LINE_AA)


class Film:
    """Writes pictures `[HEIGHT, WIDTH, 3]` to an open file as an MP4."""

    def __init__(self, file: BinaryIO, film_format: FilmFormat = ATARI_FORMAT) -> None:
        self._container = av.open(file, "w", format="mp4", options={"movflags": "faststart"})
        self._stream = self._container.add_stream(
            "libx264", rate=film_format.frames_per_second, options={"preset": "superfast", "crf": "18"}
        )
        self._stream.width, self._stream.height = WIDTH, HEIGHT
        self._stream.pix_fmt = "yuv420p"  # the only format that all browsers can show
        self._stream.thread_count = 1
        self._least_frames = math.ceil(film_format.shortest * film_format.frames_per_second)
        self._latest: Picture | None = None
        self.frames = 0

    def add(self, picture: Picture) -> None:
        """Add a picture. It must not change before the next one is added, or the film ends."""
        self._encode(picture)
        self._latest = picture
        self.frames += 1

    def _encode(self, picture: Picture) -> None:
        yuv: Any = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420)  # several times faster than PyAV's own conversion
        self._container.mux(self._stream.encode(av.VideoFrame.from_ndarray(yuv, format="yuv420p")))

    def __enter__(self) -> "Film":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            if self._latest is not None:
                for _ in range(self.frames, self._least_frames):
                    self._encode(self._latest)
            self._container.mux(self._stream.encode(None))
        self._container.close()
