"""Makes a short, small animated GIF of a video, for browsers and TensorBoard."""

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import cv2
from PIL import Image

FRAMES_PER_SECOND = 10  # or fewer
SECONDS = 20.0  # longest part of the video, from its beginning
WIDTH = 240  # at most
COLOURS = 64
PALETTE_SAMPLES = 16  # frames that the palette is chosen from


def is_complete(path: Path) -> bool:
    """Whether an MP4 file is complete: only then does it have its index, the box named `moov`."""
    with path.open("rb") as file:
        size = path.stat().st_size
        place = 0
        while place + 8 <= size:
            file.seek(place)
            header = file.read(16)
            length, name = int.from_bytes(header[:4], "big"), header[4:8]
            if length == 1:  # the length has eight bytes
                length = int.from_bytes(header[8:16], "big")
            if name == b"moov":
                return length >= 8 and place + length <= size
            if length < 8:
                return False
            place += length
    return False


def gif_of(path: Path) -> bytes | None:
    """The beginning of the video, small and at a low frame rate; None if it cannot be read."""
    pictures, rate = _pictures(path)
    return as_gif(pictures, rate) if pictures else None


def as_gif(pictures: Sequence[Image.Image], rate: float) -> bytes:
    """An endless GIF at `rate` frames a second; one palette for all frames, so that unchanged pixels take no bytes."""
    samples = pictures[:: -(-len(pictures) // PALETTE_SAMPLES)]
    width, height = pictures[0].size
    stacked = Image.new("RGB", (width, height * len(samples)))
    for place, sample in enumerate(samples):
        stacked.paste(sample, (0, height * place))
    palette = stacked.quantize(COLOURS)
    few = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    buffer = BytesIO()
    few[0].save(buffer, "GIF", save_all=True, append_images=few[1:], duration=round(1000 / rate), loop=0)
    return buffer.getvalue()


def _pictures(path: Path) -> tuple[list[Image.Image], float]:
    """Some pictures, and how many of them are in a second."""
    video = cv2.VideoCapture(str(path))
    rate = video.get(cv2.CAP_PROP_FPS) or 60.0
    step = math.ceil(rate / FRAMES_PER_SECOND)
    pictures: list[Image.Image] = []
    number = 0
    while number < SECONDS * rate and video.grab():
        if number % step == 0:
            read, frame = video.retrieve()
            if not read:
                break
            pictures.append(_small(Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))))
        number += 1
    video.release()
    return pictures, rate / step


def _small(picture: Image.Image) -> Image.Image:
    width, height = picture.size
    if width > WIDTH:
        return picture.resize((WIDTH, round(height * WIDTH / width)))
    return picture
