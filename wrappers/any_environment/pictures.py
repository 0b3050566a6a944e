"""Pictures as bytes: values of spaces, in gray and in another size, as options say, and what is shown in films."""

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from options.rules import UsageError
from wrappers.any_environment.faults import ValueFaultError
from wrappers.emulator import Frame
from wrappers.scaling import Scaler

RGB = 3
SMALLEST = 160  # pixels of the longer side of a picture that is shown: smaller ones get larger pixels
LARGEST_BYTE = 255.0


def as_array(value: Any, space: Space[Any]) -> NDArray[Any]:
    """A value of the space. Raise a ValueFaultError if it has another shape, or type of numbers.

    Other types are admitted if each number can mean the same in both: float64 for float32, and whole numbers of another
    size. Whether they are finite is not checked.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueFaultError(f"is no array ({error})") from None
    if array.shape != space.shape:
        raise ValueFaultError(f"has the shape {list(array.shape)}, and its space says {list(space.shape or ())}")
    if array.dtype != space.dtype and array.dtype.kind not in ("biuf" if np.dtype(space.dtype).kind == "f" else "biu"):
        raise ValueFaultError(f"has the dtype {array.dtype}, and its space says {space.dtype}")
    return array


def is_picture(space: spaces.Box) -> bool:
    """A Box of pixels: [H, W] of bytes; [H, W, C] or [C, H, W] of bytes, bools, or other numbers with finite bounds."""
    if min(space.shape, default=0) == 0:
        return False
    if len(space.shape) == 2:
        return space.dtype == np.uint8
    return len(space.shape) == 3 and (space.dtype in (np.uint8, np.bool_) or space.is_bounded())


def is_channels_first(shape: Sequence[int]) -> bool:
    """Whether a picture of three dimensions is [C, H, W], not [H, W, C]."""
    first, middle, last = shape
    return (first in (1, 3, 4) and first != middle and last > 4) or first < middle == last


def picture_writer(
    space: spaces.Box, options: EnvironmentOptions, name: str
) -> tuple[Callable[[Any, Frame], None], tuple[int, int, int]]:
    """A function that writes a picture of the space as bytes [C, H, W], and this shape."""
    as_bytes = _byte_converter(space, options.largest_pixel, name)
    shape = (1, *space.shape) if len(space.shape) == 2 else space.shape
    channels_last = len(space.shape) == 3 and not is_channels_first(shape)
    channels, height, width = (shape[2], shape[0], shape[1]) if channels_last else shape
    grey = options.grayscaling_frames and channels > 1
    if grey and channels != RGB:
        raise UsageError(
            f"--grayscaling_frames needs pictures in colour, and {name} has {channels} channels; "
            "--nograyscaling_frames would be right."
        )
    resolution = (height, width) if options.keeps_resolution else options.resolution
    scale = Scaler((height, width), resolution)

    def write(value: Any, out: Frame) -> None:
        pixels: NDArray[Any] = as_bytes(as_array(value, space)).reshape(shape)
        if channels_last:
            pixels = pixels.transpose(2, 0, 1)
        if grey:
            pixels = cv2.cvtColor(np.ascontiguousarray(pixels.transpose(1, 2, 0)), cv2.COLOR_RGB2GRAY)[None]
        if resolution == (height, width):
            out[:] = pixels
        else:
            for channel, into in zip(pixels, out, strict=True):  # OpenCV scales at most four at once
                into[:] = scale(np.ascontiguousarray(channel))

    return write, (1 if grey else channels, *resolution)


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
        scaled = (pixels.astype(np.float64) - low) * factor
        if not np.isfinite(scaled).all():
            raise ValueFaultError("has pixels that are NaN or infinite")
        return np.clip(np.rint(scaled), 0, LARGEST_BYTE).astype(np.uint8)

    return as_bytes


def colour_picture(rendered: Any) -> NDArray[np.uint8]:
    """What `render` returned, as bytes [height, width, 3], enlarged if it is tiny. TypeError if it is no picture."""
    if not isinstance(rendered, np.ndarray):
        raise TypeError(f"render returned {type(rendered).__name__} instead of a picture")
    if rendered.ndim != 3 or rendered.shape[2] != RGB or rendered.dtype.kind not in "uif":
        what = f"{rendered.dtype} {list(rendered.shape)}"
        raise TypeError(f"render returned {what} instead of a picture [height, width, 3]")
    if rendered.dtype.kind == "f":  # fractions of the brightest colour
        rendered = np.rint(np.clip(rendered, 0, 1) * 255)
    picture = np.ascontiguousarray(rendered.astype(np.uint8, copy=False))
    factor = -(-SMALLEST // max(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else picture
