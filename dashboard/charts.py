"""Charts as the options of ECharts, which draws them in the browser. Only plain values: no browser is needed here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reports.panels import COLOURS, Panel, XAxis
from run_files.run_history import Curve, History

# JavaScript in place of a value: ECharts gets what it evaluates to in the browser.
INK = "getComputedStyle(document.body).getPropertyValue('--soft')"
SHORT = (  # 1250000 as 1.25M
    "(v) => { const a = Math.abs(v); if (a >= 1e12) return v.toExponential(1).replace('e+', 'e'); "
    "const s = a >= 1e9 ? [1e9, 'G'] : a >= 1e6 ? [1e6, 'M'] : a >= 1e3 ? [1e3, 'k'] : [1, '']; "
    "return String(Number((v / s[0]).toPrecision(4))).replace('-', '−') + s[1]; }"
)
PERCENT = "(v) => Number((100 * v).toPrecision(3)) + '%'"
NAME = "(p) => p.name.replace(/&/g, '&amp;').replace(/</g, '&lt;')"  # a tooltip is HTML

GRID = "rgba(128,134,144,0.18)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
TEXT = {":color": INK, "fontSize": 11}
COMMON = {"animation": False, "aria": {"enabled": True}, "textStyle": {"fontFamily": FONT, **TEXT}}
BY_VALUE = {"color": [COLOURS[5], COLOURS[0], COLOURS[1]]}  # from the lowest to the highest
MOST_POINTS, MOST_DOTS = 1000, 3000  # more than a chart has pixels
NARROW_CHART = 330  # pixels of the narrowest charts
LABEL_ROW, MOST_LABELS = 20, 16  # pixels of a row of labels; rows below a chart
DASH_UNIT = 2.0  # pixels
PLAIN = Panel("", ())

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
    dashes: Sequence[float] = ()  # lengths that are drawn and left out in turn
    low: Numbers | None = None
    high: Numbers | None = None


class Frame(NamedTuple):
    """What the user chooses for all charts of a page."""

    axis: XAxis
    log_x: bool = False
    log_y: bool = False
    smooth: int = 1  # lines show means of so many reports

    def curve(self, history: History, figure: str) -> Curve:
        return self.axis.curve(history, figure, self.smooth)


def line_chart(
    lines: Sequence[Line], frame: Frame, panel: Panel = PLAIN, *, labels_below: bool = False
) -> ChartOptions:
    """Lines over a common x axis: values under the pointer, zoom, and logarithmic axes on demand.

    With `labels_below`, long labels have a row each, and the chart must be `label_height` higher.
    """
    log_y = (frame.log_y or panel.logarithmic) and not panel.stacked
    percent = PERCENT if panel.percent else SHORT
    series: list[ChartOptions] = []
    for line in lines:
        if line.low is not None and line.high is not None:
            series += _band(line, line.low, line.high, frame._replace(log_y=log_y))
        series.append(_series(line, frame._replace(log_y=log_y), panel.stacked))
    labels = [line.label for line in lines if line.label]
    width = sum(34 + 6.2 * len(label) for label in labels)
    above = 0 if labels_below or len(labels) < 2 else LABEL_ROW * math.ceil(width / NARROW_CHART)
    below = label_height(len(labels)) if labels_below else 0
    place = {"type": "scroll", "orient": "vertical", "bottom": 0} if labels_below else {"top": 0}
    return {
        **COMMON,
        "grid": {"left": 8, "right": 16, "top": 14 + above, "bottom": 26 + below, "containLabel": True},
        "legend": {
            **place, "left": 4, "right": 4, "itemWidth": 24, "itemHeight": 8, "itemGap": 8 if labels_below else 12,
            "textStyle": TEXT, "pageTextStyle": TEXT, ":pageIconColor": INK, "pageIconSize": 10,
            "show": len(labels) > 1, "data": labels,
        },
        "tooltip": {
            "trigger": "axis", "className": "chart-tooltip", "confine": True, "transitionDuration": 0,
            "axisPointer": {"type": "line", "lineStyle": {":color": INK, "width": 1, "type": "dashed"}},
            ":valueFormatter": f"(v) => v == null ? '—' : ({percent})(v)",
        },
        "xAxis": {
            "type": "log" if frame.log_x else "value", "name": frame.axis.label, "nameLocation": "middle",
            "nameGap": 24, "nameTextStyle": TEXT, "scale": frame.log_x, "min": None if frame.log_x else 0,
            "max": "dataMax", "splitLine": {"show": False}, "axisLine": {"show": True, "lineStyle": {"color": GRID}},
            "axisLabel": {**TEXT, ":formatter": SHORT, "hideOverlap": True, "showMaxLabel": False}, "splitNumber": 4,
        },
        "yAxis": {
            "type": "log" if log_y else "value", "scale": not (panel.stacked or panel.from_zero), "splitNumber": 4,
            "max": 1 if panel.stacked else None, "interval": 0.25 if panel.stacked else None,
            "splitLine": {"lineStyle": {"color": GRID}}, "axisLine": {"show": False}, "axisTick": {"show": False},
            "axisLabel": {**TEXT, ":formatter": percent},
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
    axes: Sequence[str], rows: Sequence[Sequence[float | str | None]], labels: Sequence[str]
) -> ChartOptions:
    """One line for each run across one axis for each option; the colour follows the last axis."""
    columns = [[row[index] for row in rows] for index in range(len(axes))]
    known = [value for value in columns[-1] if isinstance(value, int | float)]
    return {
        **COMMON,
        "parallel": {"left": 66, "right": 60, "top": 44, "bottom": 62, "parallelAxisDefault": {
            "nameTextStyle": TEXT, "nameGap": 14, "axisLine": {"lineStyle": {":color": INK}},
            "axisTick": {"show": False}, "axisLabel": {**TEXT, "hideOverlap": True},
            "areaSelectStyle": {"width": 18, "borderColor": COLOURS[1], "color": COLOURS[1], "opacity": 0.25},
        }},
        "parallelAxis": [_parallel_axis(index, name, columns[index]) for index, name in enumerate(axes)],
        "visualMap": _scale(axes[-1], known, len(axes) - 1),
        "tooltip": {"className": "chart-tooltip", "confine": True, ":formatter": NAME},
        "series": [{
            "type": "parallel", "smooth": 0.15, "lineStyle": {"width": 2, "opacity": 0.75},
            "inactiveOpacity": 0.06, "activeOpacity": 0.9,
            "data": [{"name": label, "value": list(row)} for label, row in zip(labels, rows, strict=True)],
        }],
    }  # fmt: skip


def _parallel_axis(index: int, name: str, column: Sequence[float | str | None]) -> ChartOptions:
    axis: ChartOptions = {"dim": index, "name": name}
    numbers = [value for value in column if isinstance(value, int | float)]
    if len(numbers) < sum(value is not None for value in column):
        return {**axis, "type": "category", "data": sorted({str(value) for value in column if value is not None})}
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if low > 0 and high / low >= 30:
        return {**axis, "type": "log", "min": low, "max": high}
    return {**axis, "type": "value", "scale": True, "axisLabel": {**TEXT, ":formatter": SHORT}}


def scatter_chart(groups: Mapping[str, Sequence[Sequence[float | None]]], value_label: str) -> ChartOptions:
    """Points (x, y, value), coloured by their value on one scale; each group has its own symbol."""
    values = [point[2] or 0.0 for points in groups.values() for point in points]
    symbols = ("circle", "triangle", "rect", "diamond")
    axis = {"type": "value", "scale": True, "splitLine": {"lineStyle": {"color": GRID}}, "nameLocation": "middle",
            "nameGap": 8, "axisLabel": {"show": False}, "axisLine": {"show": False},
            "axisTick": {"show": False}}  # fmt: skip
    return {
        **COMMON,
        "grid": {"left": 28, "right": 12, "top": 34, "bottom": 62, "containLabel": True},
        "legend": {"top": 0, "left": 4, "textStyle": TEXT, "itemStyle": {":color": INK}, "show": len(groups) > 1},
        "tooltip": {"className": "chart-tooltip", "confine": True,
                    ":formatter": f"(p) => '{value_label} ' + p.value[2]"},
        "xAxis": {**axis, "name": "first component"},
        "yAxis": {**axis, "name": "second component"},
        "visualMap": _scale(value_label, values, 2),
        "series": [
            {"type": "scatter", "name": name, "symbol": symbols[index % len(symbols)], "symbolSize": 7,
             "itemStyle": {"opacity": 0.75}, "data": [[short(number or 0.0) for number in point] for point in points]}
            for index, (name, points) in enumerate(groups.items())
        ],
    }  # fmt: skip


def _scale(label: str, values: Sequence[float], dimension: int) -> ChartOptions:
    """The legend of colours that follow from a value: from the lowest to the highest."""
    return {
        "min": min(values, default=0.0), "max": max(values, default=1.0), "dimension": dimension,
        "orient": "horizontal", "left": 8, "bottom": 0, "itemHeight": 160, "itemWidth": 10,
        "text": [label, ""], "textStyle": TEXT, "inRange": BY_VALUE, "calculable": True, ":formatter": SHORT,
    }  # fmt: skip


def label_height(count: int) -> int:
    """The height of so many labels below a chart; more than MOST_LABELS are scrolled."""
    return 12 + LABEL_ROW * min(count, MOST_LABELS) if count > 1 else 0


def _series(line: Line, frame: Frame, stacked: bool) -> ChartOptions:
    data = _points(line.x, line.y, MOST_DOTS if line.dots else MOST_POINTS, frame)
    common = {"name": line.label, "data": data, "itemStyle": {"color": line.colour}}
    if line.dots:
        item = {"color": line.colour, "opacity": 0.35}
        return {**common, "type": "scatter", "symbolSize": 4, "itemStyle": item, "z": 1}
    dashes = [DASH_UNIT * length for length in line.dashes] or "solid"
    style = {"color": line.colour, "width": 0 if stacked else 1.8, "type": dashes}
    area = {"stack": "all", "areaStyle": {"color": line.colour, "opacity": 0.7}} if stacked else {}
    return {**common, "type": "line", "lineStyle": style, "showSymbol": len(data) == 1, "z": 3, **area}


def _band(line: Line, low: Numbers, high: Numbers, frame: Frame) -> list[ChartOptions]:
    """The space between two curves: an invisible line, and on top of it a filled one as high as their distance."""
    hidden = {"type": "line", "symbol": "none", "lineStyle": {"opacity": 0}, "silent": True, "stackStrategy": "all",
              "stack": f"band of {line.label}", "tooltip": {"show": False}, "z": 1}  # fmt: skip
    gap = _points(line.x, high - low, MOST_POINTS, frame._replace(log_y=False))
    fill = {"areaStyle": {"color": line.colour, "opacity": 0.18}}
    return [
        {**hidden, "name": f"{line.label} low", "data": _points(line.x, low, MOST_POINTS, frame)},
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
