"""Parts that all pages share: the frame with its theme, facts, states, notices, and cards with a chart."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from nicegui import ui
from nicegui.element import Element
from starlette.requests import Request

from dashboard.charts import ChartOptions
from dashboard.run_list import AT_WORK
from reports.panels import COLOURS

STYLE = Path(__file__).with_name("style.css")
CONNECT_SECONDS = 60.0
THEMES: Mapping[str, tuple[bool | None, str, str]] = {  # value, icon, what a click changes to
    "auto": (None, "brightness_auto", "light"),
    "light": (False, "light_mode", "dark"),
    "dark": (True, "dark_mode", "auto"),
}
# Saves a chart as it is now, zoom included: drawn once more without a page, on white and with its title.
SAVE_CHART = """
const {{ echarts }} = await import('nicegui-echart');
const chart = getElement({id}).chart, svg = {svg};
const size = {{ width: chart.getWidth(), height: chart.getHeight() + 30 }};
const copy = echarts.init(null, null, {{ renderer: 'svg', ssr: true, ...size }});
const options = chart.getOption();
options.grid?.forEach(grid => grid.top = (parseFloat(grid.top) || 0) + 30);
options.parallel?.forEach(parallel => parallel.top = (parseFloat(parallel.top) || 0) + 30);
options.legend?.forEach(legend => legend.top = 30);
copy.setOption({{ ...options, toolbox: [], backgroundColor: '#ffffff', title: {{ text: {title}, left: 8, top: 6,
  textStyle: {{ fontSize: 14, color: '#1f2328', fontFamily: 'sans-serif' }} }} }});
const url = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(copy.renderToSVGString());
copy.dispose();
const save = href => Object.assign(document.createElement('a'), {{ href, download: {name} }}).click();
if (svg) return save(url);
const image = new Image(); image.src = url; await image.decode();
const canvas = Object.assign(document.createElement('canvas'), {{ width: 2 * image.width, height: 2 * image.height }});
canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
save(canvas.toDataURL('image/png'));
"""


def link_to(page: str, name: str) -> str:
    """The address of a run's or a sweep's page."""
    return f"/{page}/{quote(name)}"


def page_frame(request: Request, title: str) -> Element:
    """Begin a page; its content goes into the element that is returned."""
    ui.add_css(STYLE)
    ui.page_title(title)
    chosen = request.cookies.get("theme", "auto")  # by any program of this host: only known values are used
    chosen = chosen if chosen in THEMES else "auto"
    value, icon, following = THEMES[chosen]
    ui.dark_mode(value)
    ui.colors(primary=COLOURS[0])
    with ui.element("header").classes("bar"):
        ui.link("rl-platform", "/").classes("home")
        ui.label(title).classes("where")
        change = f"document.cookie = 'theme={following}; path=/; max-age=31536000; samesite=strict'; location.reload()"
        button = ui.button(icon=icon).props("flat round dense color=grey").tooltip(f"colours: {chosen}")
        button.props["aria-label"] = f"colours: {chosen}"
        button.on("click", js_handler=f"() => {{ {change} }}")
    return ui.element("main").classes("main")


async def is_open() -> bool:
    """Send the page as it is now, and wait until the browser shows it; what is added later appears at once.

    So a page opens at once, however long its files take to read. False if the browser has gone.
    """
    waiting = ui.label("Reading the files …").classes("soft")
    try:
        await ui.context.client.connected(timeout=CONNECT_SECONDS)
    except TimeoutError:
        return False
    waiting.delete()
    return True


def heading(level: int, text: str) -> None:
    with ui.element(f"h{level}"):
        ui.label(text)


def state_class(state: str) -> str:
    return f"state state-{'work' if state == AT_WORK else state}"


def fact(label: str, value: str) -> ui.label:
    """A number with its name below; the label of the number is returned, to be changed later."""
    with ui.element("div").classes("fact"):
        shown = ui.label(value).classes("value")
        ui.label(label).classes("label")
    return shown


def notice(sentence: str) -> None:
    ui.label(sentence).classes("notice")


class Notices:
    """Sentences about what cannot be read, above the content of a page."""

    def __init__(self) -> None:
        self._place = ui.column().classes("w-full gap-2")
        self._shown: list[str] = []

    def show(self, sentences: Iterable[str]) -> None:
        sentences = list(dict.fromkeys(sentences))
        if sentences == self._shown:
            return
        self._shown = sentences
        self._place.clear()
        with self._place:
            for sentence in sentences:
                notice(sentence)


class ChartCard:
    """A chart with its title and two buttons that save it as a picture."""

    def __init__(self, title: str, options: ChartOptions, *, large: bool = False, more_height: int = 0) -> None:
        self._title = title
        with ui.element("section").classes("card") as self.card:
            with ui.element("div").classes("row").style("gap: 4px"):
                self._heading = ui.label(title).classes("card-title")
                with ui.element("div").classes("tools"):
                    if "dataZoom" in options:
                        self._tool("zoom_in", "zoom: then drag over the chart", self._zoom)
                        self._tool("zoom_out_map", "show all", self._show_all)
                    self._tool("image", "save as PNG", lambda: self._save("png"))
                    self._tool("polyline", "save as SVG", lambda: self._save("svg"))
            self._chart = ui.echart(options).classes("chart large" if large else "chart")
            self._height = 340 if large else 220
            self._set_height(more_height)

    @staticmethod
    def _tool(icon: str, purpose: str, use: Callable[[], object]) -> None:
        button = ui.button(icon=icon, on_click=use).props("flat dense round size=xs color=grey").tooltip(purpose)
        button.props["aria-label"] = purpose

    def _set_height(self, more: int) -> None:
        if more:
            self._chart.style(f"height: {self._height + more}px")

    def _zoom(self) -> None:
        action = {"type": "takeGlobalCursor", "key": "dataZoomSelect", "dataZoomSelectActive": True}
        self._chart.run_chart_method("dispatchAction", action)

    def _show_all(self) -> None:
        self._chart.run_chart_method(
            "dispatchAction",
            {
                "type": "dataZoom",
                "start": 0,
                "end": 100,
                "batch": [{"dataZoomIndex": index, "start": 0, "end": 100} for index in range(4)],
            },
        )

    def update(self, options: ChartOptions, title: str | None = None, more_height: int = 0) -> None:
        """Draw the chart anew; the zoom stays."""
        self._set_height(more_height)
        if title is not None and title != self._title:
            self._title = title
            self._heading.set_text(title)
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()

    def _save(self, kind: str) -> None:
        name = "".join(c if c.isalnum() else "_" for c in self._title).strip("_").lower()
        ui.run_javascript(
            SAVE_CHART.format(
                id=self._chart.id,
                svg=json.dumps(kind == "svg"),
                title=json.dumps(self._title),
                name=json.dumps(f"{name}.{kind}"),
            )
        )
