"""Pictures of a game for people (the screen in 4:3, with a panel of text beside it), and films made of them.

Films are H.264, which every browser and video player can show, encoded with PyAV. OpenCV's own encoders do not suit: no
browser plays its MPEG-4, and its VP9 is many times slower.
"""

from collections.abc import Mapping
from fractions import Fraction
from types import TracebackType
from typing import BinaryIO, TypeAlias

import av
import cv2
import numpy as np
from numpy.typing import NDArray

Picture: TypeAlias = NDArray[np.uint8]  # [height, width, 3], RGB

FRAMES_PER_SECOND = 60
GAME_WIDTH, HEIGHT = 640, 480  # 4:3, the format of the televisions that the games were made for
PANEL_WIDTH = 240
WIDTH = GAME_WIDTH + PANEL_WIDTH

BACKGROUND, LABEL, VALUE = (24, 26, 30), (140, 146, 156), (236, 238, 242)
FONT = cv2.FONT_HERSHEY_SIMPLEX
MARGIN, FIRST_ROW, ROW_HEIGHT = 20, 100, 62


class Scene:
    """Draws pictures: the game on the left; a heading and rows of labels with values on the right."""

    def __init__(self, heading: str, subheading: str) -> None:
        self._canvas: Picture = np.full((HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
        self._write(heading, 42, 0.75, VALUE)
        self._write(subheading, 68, 0.48, LABEL)
        self._rows: dict[str, str] = {}

    def draw(self, screen: Picture, rows: Mapping[str, str]) -> Picture:
        """The picture `[HEIGHT, WIDTH, 3]`. The next call overwrites it."""
        # Enlarged by a whole factor and then reduced, so that all lines become equally thick and sharp.
        tall = cv2.resize(screen, (screen.shape[1], 3 * screen.shape[0]), interpolation=cv2.INTER_NEAREST)
        right_height = cv2.resize(tall, (screen.shape[1], HEIGHT), interpolation=cv2.INTER_AREA)
        self._canvas[:, :GAME_WIDTH] = cv2.resize(right_height, (GAME_WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST)
        for row, (label, value) in enumerate(rows.items()):
            if self._rows.get(label) != value:
                self._rows[label] = value
                self._draw_row(FIRST_ROW + row * ROW_HEIGHT, label, value)
        return self._canvas

    def _draw_row(self, top: int, label: str, value: str) -> None:
        self._canvas[top : top + ROW_HEIGHT, GAME_WIDTH:] = BACKGROUND
        self._write(label, top + 18, 0.48, LABEL)
        self._write(value, top + 46, 0.8, VALUE)

    def _write(self, text: str, y: int, size: float, colour: tuple[int, int, int]) -> None:
        """Write one line of text, smaller if it is too long for the panel."""
        width = cv2.getTextSize(text, FONT, size, 1)[0][0]
        size *= min(1.0, (PANEL_WIDTH - 2 * MARGIN) / max(1, width))
        cv2.putText(self._canvas, text, (GAME_WIDTH + MARGIN, y), FONT, size, colour, 1, cv2.LINE_AA)


class Film:
    """Writes pictures `[HEIGHT, WIDTH, 3]` to an open file as an MP4 with 60 frames per second."""

    def __init__(self, file: BinaryIO) -> None:
        self._container = av.open(file, "w", format="mp4", options={"movflags": "faststart"})
        self._stream = self._container.add_stream(
            "libx264", rate=Fraction(FRAMES_PER_SECOND), options={"preset": "superfast", "crf": "18"}
        )
        self._stream.width, self._stream.height = WIDTH, HEIGHT
        self._stream.pix_fmt = "yuv420p"  # the only format that all browsers can show
        self._stream.thread_count = 1
        self.frames = 0

    def add(self, picture: Picture) -> None:
        self._container.mux(self._stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        self.frames += 1

    def __enter__(self) -> "Film":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._container.mux(self._stream.encode(None))
        self._container.close()
