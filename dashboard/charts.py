"""Charts as the options of ECharts, which draws them in the browser. Only plain values: no browser is needed here."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from reports.panels import COLOURS, Line, Panel, XAxis
from run_files.run_reader import Curve, History, Series

# JavaScript in place of a value: ECharts gets what it evaluates to in the browser.
INK, SOFT, CARD = (f"getComputedStyle(document.body).getPropertyValue('--{name}')" for name in ("ink", "soft", "card"))
SHORT = (  # 1250000 as 1.25M
    "(v) => { const a = Math.abs(v); if (a >= 1e12) return v.toExponential(1).replace('e+', 'e'); "
    "const s = a >= 1e9 ? [1e9, 'G'] : a >= 1e6 ? [1e6, 'M'] : a >= 1e3 ? [1e3, 'k'] : [1, '']; "
    "return String(Number((v / s[0]).toPrecision(4))).replace('-', '−') + s[1]; }"
)
PERCENT = "(v) => Number((100 * v).toPrecision(3)) + '%'"
TICK, PERCENT_TICK = (  # with the digits in which neighbours of a narrow range differ
    text.replace("toPrecision(4)", "toPrecision(7)").replace("toPrecision(3)", "toPrecision(6)")
    for text in (SHORT, PERCENT)
)
NAME = "(p) => p.name.replace(/&/g, '&amp;').replace(/</g, '&lt;')"  # a tooltip is HTML

GRID = "rgba(128,134,144,0.18)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
TEXT = {":color": SOFT, "fontSize": 11}
TOOLTIP = {"className": "chart-tooltip", "confine": True, "transitionDuration": 0}
BY_VALUE = {"color": [COLOURS[5], COLOURS[0], COLOURS[1]]}  # from the lowest to the highest
HEIGHT, LARGE_HEIGHT = 220, 340  # pixels without the names below
MOST_POINTS, MOST_DOTS = 1000, 3000  # more than a chart has pixels
NARROW, WIDE = 330, 660  # pixels: charts on the narrowest screens, and those from which on names have more room
LONGEST_TITLE, TITLE_ROW = 36, 16  # characters and pixels of a line
NAME_ROW, NAME_GAP, NAME_MARGIN, CHARACTER_WIDTH = 14, 8, 44, 6.2  # pixels of names
DASH_UNIT = 2.0  # pixels
SVG_ICON = "path://M2 3h16v14H2z M5 14l4-8l3 5l2-3l2 6"
PLAIN = Panel("", ())

ChartOptions = dict[str, Any]


class Frame(NamedTuple):
    """What the user chooses for all charts of a page."""

    axis: XAxis
    log_x: bool = False
    log_y: bool = False
    smooth: int = 1  # lines show means of so many reports

    def curve(self, history: History, figure: str) -> Curve:
        return self.axis.curve(history, figure, self.smooth)


def line_chart(title: str, lines: Sequence[Line], frame: Frame, panel: Panel = PLAIN) -> ChartOptions:
    """Lines over a common x axis: values under the pointer, zoom, and logarithmic axes on demand; names below."""
    frame = frame._replace(log_y=(frame.log_y or panel.logarithmic) and not panel.stacked)
    percent = PERCENT if panel.percent else SHORT
    series: list[ChartOptions] = []
    for line in lines:
        if line.low is not None and line.high is not None:
            series += _band(line, line.low, line.high, frame)
        series.append(_series(line, frame, panel.stacked))
    names = [line.label for line in lines if line.label]
    return {
        **_common(title, zoom=True),
        "grid": {"left": 8, "right": 16, "top": _top(title), "containLabel": True},
        "media": [
            {"option": _with_names(names, NARROW)}, {"query": {"minWidth": WIDE}, "option": _with_names(names, WIDE)},
        ],
        "legend": {
            "bottom": 0, "left": 4, "right": 4, "itemWidth": 24, "itemHeight": 8, "itemGap": NAME_GAP,
            "textStyle": {**TEXT, "lineHeight": NAME_ROW}, "show": len(names) > 1, "data": names,
        },
        "tooltip": {
            **TOOLTIP, "trigger": "axis",
            "axisPointer": {"type": "line", "lineStyle": {":color": SOFT, "width": 1, "type": "dashed"}},
            ":valueFormatter": f"(v) => v == null ? '—' : ({percent})(v)",
        },
        "xAxis": {
            "type": "log" if frame.log_x else "value", "name": frame.axis.label, "nameLocation": "middle",
            "nameGap": 24, "nameTextStyle": TEXT, "scale": frame.log_x, "min": None if frame.log_x else 0,
            "max": "dataMax", "splitLine": {"show": False}, "axisLine": {"show": True, "lineStyle": {"color": GRID}},
            "axisLabel": {**TEXT, ":formatter": TICK, "hideOverlap": True, "showMaxLabel": False}, "splitNumber": 4,
        },
        "yAxis": {
            "type": "log" if frame.log_y else "value", "scale": not (panel.stacked or panel.from_zero),
            "splitNumber": 4, "max": 1 if panel.stacked else None, "interval": 0.25 if panel.stacked else None,
            "splitLine": {"lineStyle": {"color": GRID}}, "axisLine": {"show": False}, "axisTick": {"show": False},
            "axisLabel": {**TEXT, ":formatter": PERCENT_TICK if panel.percent else TICK},
        },
        "dataZoom": [
            {"type": "inside", "xAxisIndex": 0, "filterMode": "none", "zoomOnMouseWheel": "ctrl",
             "moveOnMouseWheel": False},
        ],
        "series": series,
    }  # fmt: skip


def parallel_chart(
    title: str, axes: Sequence[str], rows: Sequence[Sequence[float | str | None]], labels: Sequence[str]
) -> ChartOptions:
    """One line for each run across one axis for each option; the colour follows the last axis."""
    columns = [[row[index] for row in rows] for index in range(len(axes))]
    known = [value for value in columns[-1] if isinstance(value, int | float)]
    return {
        **_common(title),
        "parallel": {"left": 66, "right": 60, "top": 44 + _top(title), "bottom": 62, "parallelAxisDefault": {
            "nameTextStyle": TEXT, "nameGap": 14, "axisLine": {"lineStyle": {":color": SOFT}},
            "axisTick": {"show": False}, "axisLabel": {**TEXT, "hideOverlap": True},
            "areaSelectStyle": {"width": 18, "borderColor": COLOURS[1], "color": COLOURS[1], "opacity": 0.25},
        }},
        "parallelAxis": [_parallel_axis(index, name, columns[index]) for index, name in enumerate(axes)],
        "visualMap": {
            "min": min(known, default=0.0), "max": max(known, default=1.0), "dimension": len(axes) - 1,
            "orient": "horizontal", "left": 8, "bottom": 0, "itemHeight": 160, "itemWidth": 10,
            "text": [axes[-1], ""], "textStyle": TEXT, "inRange": BY_VALUE, "calculable": True, ":formatter": SHORT,
        },
        "tooltip": {**TOOLTIP, ":formatter": NAME},
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
    return {**axis, "type": "value", "scale": True, "axisLabel": {**TEXT, ":formatter": TICK}}


def _common(title: str, *, zoom: bool = False) -> ChartOptions:
    """What all charts have: a title, and ECharts' own tools beside it. They save a chart as it is now."""
    dragged = {"dataZoom": {"filterMode": "none", "title": {"zoom": "zoom: then drag", "back": "zoom back"}}}
    return {
        "animation": False, "aria": {"enabled": True}, "textStyle": {"fontFamily": FONT, **TEXT},
        "title": {
            "text": textwrap.fill(title, LONGEST_TITLE), "left": 0, "top": 0, "padding": 0,
            "textStyle": {":color": INK, "fontSize": 13, "fontWeight": 600, "lineHeight": TITLE_ROW},
        },
        "toolbox": {
            "right": 0, "top": 0, "padding": 0, "itemSize": 13, "itemGap": 8, "iconStyle": {":borderColor": SOFT},
            "feature": {
                **(dragged if zoom else {}),
                "saveAsImage": {"title": "save as PNG", "name": title, "pixelRatio": 2, ":backgroundColor": CARD},
                "mySvg": {"title": "save as SVG", "icon": SVG_ICON, ":onclick": "saveAsSvg"},
            },
        },
    }  # fmt: skip


def _top(title: str) -> int:
    """Where the chart begins below its title."""
    return 14 + TITLE_ROW * len(textwrap.wrap(title, LONGEST_TITLE))


class NamesBelow(NamedTuple):
    """The place of the names below a chart of at least this width: in columns, or each on lines of its own."""

    longest: int  # characters in a line
    orient: str
    height: int


def names_below(names: Sequence[str], width: int) -> NamesBelow:
    longest = int((width - NAME_MARGIN) / CHARACTER_WIDTH)
    lines = [textwrap.wrap(name, longest) for name in names]
    if len(names) < 2:
        return NamesBelow(longest, "horizontal", 0)
    widest = NAME_MARGIN + CHARACTER_WIDTH * max(len(line) for each in lines for line in each)
    if widest > width / 2:
        return NamesBelow(longest, "vertical", sum(NAME_ROW * len(each) + NAME_GAP for each in lines))
    rows = -(-len(names) // int(width / widest))
    return NamesBelow(longest, "horizontal", rows * (NAME_ROW + NAME_GAP))


def _with_names(names: Sequence[str], width: int) -> ChartOptions:
    longest, orient, height = names_below(names, width)
    wrapped = f"(name) => name.replace(/(.{{1,{longest}}})( |$)/g, '$1\\n').trimEnd()"
    return {"grid": {"bottom": 26 + height}, "legend": {"orient": orient, ":formatter": wrapped}}


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


def _band(line: Line, low: Series, high: Series, frame: Frame) -> list[ChartOptions]:
    """The space between two curves: an invisible line, and on top of it a filled one as high as their distance."""
    hidden = {"type": "line", "symbol": "none", "lineStyle": {"opacity": 0}, "silent": True, "stackStrategy": "all",
              "stack": f"band of {line.label}", "tooltip": {"show": False}, "z": 1}  # fmt: skip
    gap = _points(line.x, high - low, MOST_POINTS, frame._replace(log_y=False))
    fill = {"areaStyle": {"color": line.colour, "opacity": 0.18}}
    return [
        {**hidden, "name": f"{line.label} low", "data": _points(line.x, low, MOST_POINTS, frame)},
        {**hidden, **fill, "name": f"{line.label} range", "data": gap},
    ]


def _points(x: Series, y: Series, most: int, frame: Frame) -> list[list[float | None]]:
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
