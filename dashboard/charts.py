"""Charts as the options of ECharts, which draws them in the browser. Only plain values: no browser is needed here.

All colours are readable on a light and on a dark page, so a chart is the same on both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.panels import COLOURS, Panel

INK = "#7D838C"  # of labels: its contrast is above 3.8 on white and on nearly black
GRID = "rgba(128,134,144,0.18)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
MOST_POINTS, MOST_DOTS = 1000, 3000  # more than a chart has pixels
NARROW_CHART = 330  # pixels of the narrowest charts
LABEL_ROW, MOST_LABELS = 20, 16  # pixels of a row of labels; rows below a chart
BAR, DASHED_BAR = 12, 24  # pixels of a line in the legend
DASH_UNIT = 2.0  # pixels, instead of the width of the line

Numbers = NDArray[np.float64]
ChartOptions = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One figure of a chart. With `low` and `high`, the space between them is filled."""

    label: str
    x: Numbers
    y: Numbers
    colour: str
    dots: bool = False
    dashes: Sequence[float] = ()  # lengths that are drawn and left out in turn, in widths of the line
    low: Numbers | None = None
    high: Numbers | None = None


@dataclass(frozen=True)
class Frame:
    """The axes of a chart of lines, and where its labels are."""

    x_label: str
    log_y: bool = False
    log_x: bool = False
    percent: bool = False
    stacked: bool = False
    from_zero: bool = False
    labels_below: bool = False  # long labels, one in a row; the chart must be `label_height` pixels higher

    def of(self, panel: Panel) -> "Frame":
        """The frame of a panel, whose figures may want a logarithmic axis, or one from 0, or none such."""
        log_y = (self.log_y or panel.logarithmic) and not panel.stacked
        return replace(self, log_y=log_y, percent=panel.percent, stacked=panel.stacked, from_zero=panel.from_zero)


def line_chart(lines: Sequence[Line], frame: Frame) -> ChartOptions:
    """Lines over a common x axis: values under the pointer, zoom, and logarithmic axes on demand."""
    series: list[dict[str, Any]] = []
    for index, line in enumerate(lines):
        if line.low is not None and line.high is not None:
            series += _band(index, line, frame)
        series.append(_series(line, frame))
    named = [line for line in lines if line.label]
    width = sum(_label_width(line.label) for line in named)
    above = 0 if frame.labels_below or len(named) < 2 else LABEL_ROW * math.ceil(width / NARROW_CHART)
    below = label_height(len(named)) if frame.labels_below else 0
    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT, "color": INK, "fontSize": 11},
        "grid": {"left": 8, "right": 16, "top": 14 + above, "bottom": 26 + below, "containLabel": True},
        "legend": {
            **_legend(frame.labels_below), "itemWidth": DASHED_BAR if any(line.dashes for line in named) else BAR,
            "show": len(named) > 1, "data": [_label(line) for line in named],
        },
        "tooltip": _tooltip(frame.percent),
        "xAxis": {
            "type": "log" if frame.log_x else "value", "name": frame.x_label, "nameLocation": "middle", "nameGap": 24,
            "nameTextStyle": {"color": INK}, "scale": frame.log_x, "min": None if frame.log_x else 0, "max": "dataMax",
            "splitLine": {"show": False}, "axisLine": {"show": True, "lineStyle": {"color": GRID}},
            "axisLabel": {"color": INK, ":formatter": SHORT, "hideOverlap": True, "showMaxLabel": False},
            "splitNumber": 4,
        },
        "yAxis": {
            "type": "log" if frame.log_y else "value", "scale": not (frame.stacked or frame.from_zero),
            "splitNumber": 4, "max": 1 if frame.stacked else None, "interval": 0.25 if frame.stacked else None,
            "splitLine": {"lineStyle": {"color": GRID}}, "axisLine": {"show": False}, "axisTick": {"show": False},
            "axisLabel": {"color": INK, ":formatter": PERCENT if frame.percent else SHORT},
        },
        "dataZoom": [
            {"type": "inside", "xAxisIndex": 0, "filterMode": "none", "zoomOnMouseWheel": "ctrl",
             "moveOnMouseWheel": False},
        ],
        # Out of sight: the page has its own button, which needs the tool.
        "toolbox": {"right": -1000, "feature": {"dataZoom": {"filterMode": "none"}}},
        "series": series,
    }  # fmt: skip


def parallel_chart(
    axes: Sequence[str], rows: Sequence[Sequence[float | str | None]], labels: Sequence[str], colour_by: int
) -> ChartOptions:
    """One line for each run across one axis for each option; the colour follows the axis `colour_by`."""
    columns = [[row[index] for row in rows] for index in range(len(axes))]
    known = [value for value in columns[colour_by] if isinstance(value, int | float)]
    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT, "color": INK, "fontSize": 11},
        "parallel": {"left": 66, "right": 60, "top": 44, "bottom": 24, "parallelAxisDefault": {
            "nameTextStyle": {"color": INK, "fontSize": 11}, "nameGap": 14,
            "axisLine": {"lineStyle": {"color": INK}}, "axisTick": {"show": False},
            "axisLabel": {"color": INK, "hideOverlap": True},
            "areaSelectStyle": {"width": 18, "borderColor": COLOURS[1], "color": COLOURS[1], "opacity": 0.25},
        }},
        "parallelAxis": [_parallel_axis(index, name, columns[index]) for index, name in enumerate(axes)],
        "visualMap": {
            "show": False, "dimension": colour_by, "min": min(known, default=0.0), "max": max(known, default=1.0),
            "inRange": {"color": [COLOURS[5], COLOURS[0], COLOURS[1]]},
        },
        "tooltip": {**_tooltip(False), "trigger": "item", ":formatter": NAME},
        "series": [{
            "type": "parallel", "smooth": 0.15, "lineStyle": {"width": 2, "opacity": 0.75},
            "inactiveOpacity": 0.06, "activeOpacity": 0.9,
            "data": [{"name": label, "value": list(row)} for label, row in zip(labels, rows, strict=True)],
        }],
    }  # fmt: skip


def scatter_chart(groups: Mapping[str, Sequence[tuple[float, float, float]]], value_label: str) -> ChartOptions:
    """Points (x, y, value), coloured by their value on one scale; each group has its own symbol."""
    values = [value for points in groups.values() for _, _, value in points]
    symbols = ("circle", "triangle", "rect", "diamond")
    axis = {"type": "value", "scale": True, "splitLine": {"lineStyle": {"color": GRID}},
            "axisLabel": {"show": False}, "axisLine": {"show": False}, "axisTick": {"show": False}}  # fmt: skip
    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT, "color": INK, "fontSize": 11},
        "grid": {"left": 28, "right": 12, "top": 34, "bottom": 62, "containLabel": True},
        "legend": {**_legend(), "icon": None, "itemStyle": {"color": INK}, "show": len(groups) > 1},
        "tooltip": {**_tooltip(False), "trigger": "item", ":formatter": f"(p) => '{value_label} ' + p.value[2]"},
        "xAxis": {**axis, "name": "first component", "nameLocation": "middle", "nameGap": 8},
        "yAxis": {**axis, "name": "second component", "nameLocation": "middle", "nameGap": 8},
        "visualMap": {
            "min": min(values, default=0.0), "max": max(values, default=1.0), "dimension": 2, "orient": "horizontal",
            "left": "center", "bottom": 0, "itemHeight": 160, "itemWidth": 10, "text": [value_label, ""],
            "textStyle": {"color": INK}, "inRange": {"color": [COLOURS[5], COLOURS[0], COLOURS[1]]}, "calculable": True,
        },
        "series": [
            {"type": "scatter", "name": name, "symbol": symbols[index % len(symbols)], "symbolSize": 7,
             "itemStyle": {"opacity": 0.75},
             "data": [[float(f"{n:.5g}") for n in point] for point in points]}
            for index, (name, points) in enumerate(groups.items())
        ],
    }  # fmt: skip


# Functions of JavaScript that write numbers: 1250000 as 1.25M, and 0.25 as 25%.
SHORT = (
    "(v) => { const a = Math.abs(v); if (a >= 1e12) return v.toExponential(1).replace('e+', 'e'); "
    "const s = a >= 1e9 ? [1e9, 'G'] : a >= 1e6 ? [1e6, 'M'] : a >= 1e3 ? [1e3, 'k'] : [1, '']; "
    "return String(Number((v / s[0]).toPrecision(4))).replace('-', '−') + s[1]; }"
)
NAME = "(p) => p.name.replace(/&/g, '&amp;').replace(/</g, '&lt;')"  # a tooltip is HTML
PERCENT = "(v) => Number((100 * v).toPrecision(3)) + '%'"


def _tooltip(percent: bool) -> ChartOptions:
    return {
        "trigger": "axis",
        "axisPointer": {"type": "line", "lineStyle": {"color": INK, "width": 1, "type": "dashed"}},
        "className": "chart-tooltip",
        ":valueFormatter": f"(v) => v == null ? '—' : ({PERCENT if percent else SHORT})(v)",
        "confine": True,
        "transitionDuration": 0,
    }


def label_height(count: int) -> int:
    """The height of so many labels below a chart; more than MOST_LABELS are scrolled."""
    return 12 + LABEL_ROW * min(count, MOST_LABELS) if count > 1 else 0


def _label_width(label: str) -> float:
    return 28 + 6.2 * len(label)


def _label(line: Line) -> str | ChartOptions:
    """A label of the legend. Beside that of a dashed line there are dashes, beside others a bar."""
    if not line.dashes:
        return line.label
    bars, begin = "", 0.0
    for place, width in enumerate(DASH_UNIT * length for length in cycle(line.dashes)):
        if begin + width > DASHED_BAR:
            break
        bars += "" if place % 2 else f"M{begin:g},0h{width:g}v8h-{width:g}z"
        begin += width
    return {"name": line.label, "icon": f"path://{bars}"}


def _legend(below: bool = False) -> ChartOptions:
    place = {"type": "scroll", "orient": "vertical", "bottom": 0} if below else {"top": 0}
    return {
        **place, "left": 4, "right": 4, "itemWidth": BAR, "itemHeight": 8, "itemGap": 8 if below else 12,
        "icon": "roundRect", "textStyle": {"color": INK, "fontSize": 11}, "pageIconColor": INK,
        "pageTextStyle": {"color": INK}, "pageIconSize": 10,
    }  # fmt: skip


def _series(line: Line, frame: Frame) -> dict[str, Any]:
    data = _points(line.x, line.y, MOST_DOTS if line.dots else MOST_POINTS, frame)
    common = {"name": line.label, "data": data, "itemStyle": {"color": line.colour}}
    if line.dots:
        item = {"color": line.colour, "opacity": 0.35}
        return {**common, "type": "scatter", "symbolSize": 4, "itemStyle": item, "z": 1}
    style: ChartOptions = {
        "color": line.colour, "width": 0 if frame.stacked else 1.8,
        "type": [DASH_UNIT * length for length in line.dashes] or "solid",
    }  # fmt: skip
    series = {**common, "type": "line", "lineStyle": style, "showSymbol": len(data) == 1, "z": 3}
    if frame.stacked:
        series |= {"areaStyle": {"color": line.colour, "opacity": 0.7}}
    return {**series, "stack": "all"} if frame.stacked else series


def _band(index: int, line: Line, frame: Frame) -> list[dict[str, Any]]:
    """The space between two curves: an invisible line, and on top of it a filled one as high as their distance."""
    assert line.low is not None and line.high is not None
    hidden = {"type": "line", "symbol": "none", "lineStyle": {"opacity": 0}, "silent": True, "stack": f"band {index}",
              "stackStrategy": "all", "tooltip": {"show": False}, "z": 1}  # fmt: skip
    low = _points(line.x, line.low, MOST_POINTS, frame)
    gap = _points(line.x, line.high - line.low, MOST_POINTS, replace(frame, log_y=False))
    fill = {"areaStyle": {"color": line.colour, "opacity": 0.18}}
    return [
        {**hidden, "name": f"{line.label} low", "data": low},
        {**hidden, **fill, "name": f"{line.label} range", "data": gap},
    ]


def _points(x: Numbers, y: Numbers, most: int, frame: Frame) -> list[list[float | None]]:
    """Points as JSON, at most `most`. A logarithmic axis has no place for numbers that are not positive."""
    if len(x) > most:
        kept = np.unique(np.linspace(0, len(x) - 1, most).astype(int))
        x, y = x[kept], y[kept]
    return [
        [short(a), None if (frame.log_y and b <= 0) or not math.isfinite(b) else short(b)]
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
        if not frame.log_x or a > 0
    ]


def short(value: float) -> float:
    """Six digits: enough for any chart, and a third of the bytes."""
    return float(f"{value:.6g}")


def _parallel_axis(index: int, name: str, column: Sequence[float | str | None]) -> ChartOptions:
    axis: ChartOptions = {"dim": index, "name": name}
    numbers = [value for value in column if isinstance(value, int | float)]
    if len(numbers) < sum(value is not None for value in column):
        return {**axis, "type": "category", "data": sorted({str(value) for value in column if value is not None})}
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if low > 0 and high / low >= 30:
        return {**axis, "type": "log", "min": low, "max": high}
    return {**axis, "type": "value", "scale": True, "axisLabel": {"color": INK, ":formatter": SHORT}}
