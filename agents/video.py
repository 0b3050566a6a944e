"""A game as people watch it: the picture in its true proportions, beside it what is known of the game; and its film.

H.264 by way of PyAV, because every browser and player shows it. Of the encoders in OpenCV's own package, which is here
anyway, MPEG-4 is shown by no browser, and VP9 takes eight times as long.
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
GAME_WIDTH, HEIGHT = 640, 480  # a television's 4:3, which the games' pixels were drawn for
PANEL_WIDTH = 240
WIDTH = GAME_WIDTH + PANEL_WIDTH

BACKGROUND, LABEL, VALUE = (24, 26, 30), (140, 146, 156), (236, 238, 242)
FONT = cv2.FONT_HERSHEY_SIMPLEX
MARGIN, ROW_HEIGHT = 20, 62


class Scene:
    """Puts pictures together: the game on the left, a heading and rows of labels with their values on the right."""

    def __init__(self, heading: str, subheading: str) -> None:
        self._canvas: Picture = np.full((HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
        self._empty_panel = self._canvas[:, GAME_WIDTH:]
        self._write(self._empty_panel, heading, 42, 0.75, VALUE)
        self._write(self._empty_panel, subheading, 68, 0.48, LABEL)
        self._empty_panel = self._empty_panel.copy()
        self._rows: dict[str, str] = {}

    def draw(self, screen: Picture, rows: Mapping[str, str]) -> Picture:
        """The whole picture `[HEIGHT, WIDTH, 3]`, good until the next one is drawn."""
        # First by whole factors, then down to size: all lines of the screen come out equally thick and sharp.
        enlarged = np.repeat(np.repeat(screen, 3, axis=0), GAME_WIDTH // screen.shape[1], axis=1)
        self._canvas[:, :GAME_WIDTH] = cv2.resize(enlarged, (GAME_WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        if rows != self._rows:
            self._rows = dict(rows)
            self._canvas[:, GAME_WIDTH:] = self._empty_panel
            for row, (label, value) in enumerate(rows.items()):
                top = 118 + row * ROW_HEIGHT
                self._write(self._canvas[:, GAME_WIDTH:], label, top, 0.48, LABEL)
                self._write(self._canvas[:, GAME_WIDTH:], value, top + 28, 0.8, VALUE)
        return self._canvas

    def _write(self, panel: Picture, text: str, y: int, size: float, colour: tuple[int, int, int]) -> None:
        width = cv2.getTextSize(text, FONT, size, 1)[0][0]
        size *= min(1.0, (PANEL_WIDTH - 2 * MARGIN) / max(1, width))
        cv2.putText(panel, text, (MARGIN, y), FONT, size, colour, 1, cv2.LINE_AA)


class Film:
    """Writes pictures `[HEIGHT, WIDTH, 3]` to an open file as an MP4 of 60 frames a second."""

    def __init__(self, file: BinaryIO) -> None:
        self._container = av.open(file, "w", format="mp4", options={"movflags": "faststart"})
        self._stream = self._container.add_stream(
            "libx264", rate=Fraction(FRAMES_PER_SECOND), options={"preset": "veryfast", "crf": "18"}
        )
        self._stream.width, self._stream.height = WIDTH, HEIGHT
        self._stream.pix_fmt = "yuv420p"  # the one that browsers show
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
