"""The style of all curves: axes, smoothing. Importing it takes half a second, because of matplotlib."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from options.rules import UsageError, matching, option
from run_files.run_folder import write_atomically
from run_files.run_history import Series

INK, FAINT_INK, GRID = "#222222", "#6B6B6B", "#E6E6E6"
PICTURE = matching(r"(?s).*[^/]\.(png|svg|pdf)", "end in one of .png, .svg, .pdf", is_path=True)


def output_option(default: str) -> Any:
    """The option --output of a program that draws."""
    return option(default, PICTURE, "File to write.")


def new_figure(width: float, height: float) -> Figure:
    """An empty white page; width and height are in inches."""
    return Figure(figsize=(width, height), dpi=100, facecolor="white")


def style_axes(axes: Axes, title: str) -> None:
    """Give a panel a title, a light grid and no frame."""
    axes.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold", pad=6)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#BBBBBB")
    axes.tick_params(colors=FAINT_INK, labelsize=8, length=3, color="#BBBBBB")


def format_counts(axes: Axes, max_ticks: int = 5) -> None:
    """Label the x axis with short counts: 0, 500k, 1M, 1.5M."""
    axes.xaxis.set_major_locator(MaxNLocator(max_ticks, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def short_count(value: float) -> str:
    """1,250,000 as `1.25M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            if abs(value) >= 1e12:
                return f"{value:.2g}".replace("e+", "e").replace("-", "−")
            return f"{value / size:.4g}{letter}".replace("-", "−")
    return f"{value:z.4g}".replace("-", "−")


def smoothed(values: Series, window: int) -> Series:
    """Running mean of the last `window` values; of fewer values at the beginning."""
    if window <= 1 or not len(values):
        return values
    window = min(window, len(values))  # a larger one may be more than a machine number holds
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: Series = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def verbatim(text: str) -> str:
    """The text in such a way that matplotlib does not read what is between two dollar signs as mathematics."""
    return text.replace("$", r"\$")


def as_bytes(figure: Figure, kind: str = "png") -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=kind)
    return buffer.getvalue()


def write_picture(output: Path, figure: Figure) -> None:
    """Write the file of --output, as what its name ends in. Raises UsageError if it cannot be written."""
    picture = as_bytes(figure, output.suffix.removeprefix("."))
    try:
        write_atomically(output, picture)
    except OSError as error:
        raise UsageError(f"--output={output} cannot be written ({error.strerror}).") from None
