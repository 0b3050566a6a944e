"""Makes one picture of bytes, [C, H, W], from the pictures in an observation."""

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from options.environment_options import MAX_CHANNELS, EnvironmentOptions
from options.rules import UsageError
from wrappers.any_environment.faults import ValueFaultError
from wrappers.any_environment.observations import Part, array_reader, is_channels_first
from wrappers.emulator import Frame
from wrappers.scaling import Scaler

RGB = 3
LARGEST_BYTE = 255.0
MOST_AT_ONCE = 4  # channels that OpenCV scales together


class PictureReader:
    """Reads the pictures of an observation: scaled so that the largest value is 255, grey and resized as options say.

    Several pictures of one size are joined by channel. `shape` is that of the result, [C, H, W].
    """

    def __init__(self, parts: Sequence[Part], options: EnvironmentOptions) -> None:
        pictures = [part for part in parts if part.kind == "picture"]
        readers = [_picture_reader(part, options) for part in pictures]
        self._readers = list(zip(pictures, (read for read, _ in readers), strict=True))
        sizes = [size for _, size in readers]
        for part, (_, *size) in zip(pictures, sizes, strict=True):
            if size != list(sizes[0][1:]):
                raise UsageError(
                    f"--env has pictures of several sizes: {part.name} is {size[0]}×{size[1]}, and {pictures[0].name} "
                    f"{sizes[0][1]}×{sizes[0][2]}; --env_wrapper=module:function can name a wrapper that changes this."
                )
        self._scale: Callable[[Frame], Frame] | None = None
        self.shape = (0, 0, 0)
        if not sizes:
            return
        channels, (_, height, width) = sum(size[0] for size in sizes), sizes[0]
        if channels * options.frames_stacked > MAX_CHANNELS:
            raise UsageError(
                f"--frames_stacked={options.frames_stacked} is too many for pictures of {channels} channels; at most "
                f"{MAX_CHANNELS} channels together would be right."
            )
        if not options.keeps_resolution and options.resolution != (height, width):
            self._scale = scaler((height, width), channels, options.resolution)
            height, width = options.resolution
        self.shape = (channels, height, width)

    def __call__(self, observation: Any) -> Frame:
        """The picture [C, H, W]. It may share memory with the observation, and the next call may overwrite it."""
        found = []
        for part, read in self._readers:
            value = observation
            try:
                for key in part.path:
                    value = value[key]
                found.append(read(value))
            except ValueFaultError as error:
                raise ValueFaultError(f"{part.name} {error}") from None
            except (LookupError, TypeError) as error:
                raise ValueFaultError(f"{part.name} is missing ({error!r})") from None
        picture = found[0] if len(found) == 1 else np.concatenate(found, axis=2)
        if self._scale is not None:
            picture = self._scale(np.ascontiguousarray(picture if picture.shape[2] > 1 else picture[:, :, 0]))
        return picture.transpose(2, 0, 1) if picture.ndim == 3 else picture[None]


def scaler(size: tuple[int, int], channels: int, resolution: tuple[int, int]) -> Callable[[Frame], Frame]:
    """A function from pictures [H, W] or [H, W, C] to such pictures in another size.

    OpenCV scales at most four channels at once, so more of them are scaled in groups.
    """
    if channels <= MOST_AT_ONCE:
        return Scaler(size if channels == 1 else (*size, channels), resolution)
    groups = np.array_split(np.arange(channels), -(-channels // MOST_AT_ONCE))
    parts = [(slice(group[0], group[-1] + 1), Scaler((*size, len(group)), resolution)) for group in groups]
    return lambda picture: np.concatenate(
        [scale(np.ascontiguousarray(picture[..., channels])) for channels, scale in parts], axis=2
    )


def _picture_reader(part: Part, options: EnvironmentOptions) -> tuple[Callable[[Any], Frame], tuple[int, int, int]]:
    """A function from a picture's value to its bytes [H, W, C], and (C, H, W)."""
    space = part.space
    assert isinstance(space, spaces.Box)
    read = array_reader(space)
    as_bytes = _byte_converter(space, options.largest_pixel, part.name)
    channels_first = len(space.shape) == 3 and is_channels_first(space.shape)
    flat = len(space.shape) == 2
    shape = (*space.shape, 1) if flat else space.shape
    channels, height, width = shape if channels_first else (shape[2], shape[0], shape[1])
    grey = options.grayscaling_frames and channels > 1
    if grey and channels != RGB:
        raise UsageError(
            f"--grayscaling_frames needs pictures in colour, and {part.name} has {channels} channels; "
            "--nograyscaling_frames would be right."
        )

    def picture(value: Any) -> Frame:
        pixels = as_bytes(read(value))
        if flat:
            return pixels[:, :, None]
        if channels_first:
            pixels = pixels.transpose(1, 2, 0)
        if grey:
            return cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)[:, :, None].view(np.uint8)
        return pixels

    return picture, (1 if grey else channels, height, width)


def _byte_converter(space: spaces.Box, largest: int, name: str) -> Callable[[NDArray[Any]], Frame]:
    """A function from pixels to bytes: the smallest value below 0, or 0, becomes 0, and the largest one 255."""
    low = min(float(space.low.min()), 0.0)
    high = float(largest or space.high.max())
    if not high > low:
        raise UsageError(
            f"--env: the pixels of {name} have no value above {low:g}; its space's largest value, or --largest_pixel, "
            "must be above it."
        )
    factor = LARGEST_BYTE / (high - low)
    table = np.clip(np.rint((np.arange(256.0) - low) * factor), 0, LARGEST_BYTE).astype(np.uint8)
    unchanged = bool((table == np.arange(256)).all())

    def as_bytes(pixels: NDArray[Any]) -> Frame:
        if pixels.dtype == np.uint8:
            return pixels if unchanged else table[pixels]
        if pixels.dtype == np.bool_:
            return table[pixels.view(np.uint8)]
        scaled = (pixels.astype(np.float64) - low) * factor
        if not np.isfinite(scaled).all():
            raise ValueFaultError("has pixels that are NaN or infinite")
        return np.clip(np.rint(scaled), 0, LARGEST_BYTE).astype(np.uint8)

    return as_bytes
