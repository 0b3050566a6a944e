"""Scales screens and pictures to the size of the observations."""

import cv2
import numpy as np
import numpy.typing as npt

from wrappers.emulator import Frame

SCREEN, SMALL = (210, 160), (84, 84)  # of ALE, and the usual observation


class Scaler:
    """Scales screens of one shape, [height, width] or [height, width, 3], to `resolution`.

    Each new pixel is the mean of the area that it covers. Screens that have this size already stay as they are.
    """

    def __init__(self, shape: tuple[int, ...], resolution: tuple[int, int]) -> None:
        # The worker processes run in parallel; threads of OpenCV would take cores from them.
        cv2.setNumThreads(1)
        self._stays = shape[:2] == resolution
        self._width_height = (resolution[1], resolution[0])
        self._area_mean = AleDownscale() if (shape, resolution) == (SCREEN, SMALL) else None
        self._scaled = np.empty((*resolution, *shape[2:]), np.uint8)

    def __call__(self, screen: Frame) -> Frame:
        """The scaled screen. The next call overwrites it."""
        if self._stays:
            return screen
        if self._area_mean is None:
            cv2.resize(screen, self._width_height, self._scaled, interpolation=cv2.INTER_AREA)
        else:
            self._area_mean.shrink(screen, self._scaled)
        return self._scaled


GROUPS, QUARTERS = 42, 4  # common factors of the heights 210 and 84, and of the widths 160 and 84


class AleDownscale:
    """Scales ALE's 210×160 screens to 84×84 more than twice as fast as OpenCV.

    Each new pixel is the mean of the 2.5 × 40/21 pixels that it covers; halves are rounded up. OpenCV processes the
    columns of all 210 rows pixel by pixel. Here the rows are added first, as whole vectors (five rows become two), and
    then the columns, as a product of small matrices (40 columns become 21).
    """

    def __init__(self) -> None:
        self._rows = np.empty((GROUPS, 5, SCREEN[1]), np.uint16)
        self._sums = np.empty((GROUPS, 2, SCREEN[1]), np.uint16)
        # In two parts, because OpenBLAS starts threads for a product of the full size.
        self._floats = np.empty((2, GROUPS * QUARTERS, 40), np.float32)
        self._means = np.empty((2, GROUPS * QUARTERS, 21), np.float32)
        self._weights = _overlaps(40, 21) / np.float32(5 * 40)

    def shrink(self, screen: Frame, out: Frame) -> None:
        """`screen [210, 160]` → `out [84, 84]`."""
        rows, sums = self._rows, self._sums
        np.copyto(rows, screen.reshape(rows.shape))
        np.add(rows[:, 0::3], rows[:, 1::3], out=sums)
        np.left_shift(sums, 1, out=sums)
        np.add(sums, rows[:, 2:3], out=sums)  # for rows a to e: 2a + 2b + c and c + 2d + 2e
        np.copyto(self._floats.reshape(sums.shape), sums)
        np.matmul(self._floats, self._weights, out=self._means)
        # A mean is a multiple of 1/200. Adding 100.5/200 instead of 100/200 compensates for float32 rounding errors.
        np.add(self._means, np.float32(100.5 / 200), out=self._means)
        np.copyto(out, self._means.reshape(out.shape), casting="unsafe")


def _overlaps(pixels: int, fewer: int) -> npt.NDArray[np.float32]:
    """How much of each old pixel each new pixel covers, as a multiple of 1/`fewer`: `[pixels, fewer]`."""
    fine = np.arange(pixels * fewer)
    overlaps = np.zeros((pixels, fewer), np.float32)
    np.add.at(overlaps, (fine // fewer, fine // pixels), 1)
    return overlaps
