"""Parts that all pages share: the frame with its theme, facts, states, notices, and cards with a chart."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.element import Element

from dashboard.charts import ChartOptions, label_height
from dashboard.results import AT_WORK, PageError
from reports.panels import COLOURS

STYLE = Path(__file__).with_name("style.css")
SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
CONNECT_SECONDS = 60.0
MOST_ROWS = 25  # of one page of a table
LINK_CELL = '<q-td :props="props"><a :href="props.row.link">{{ props.value }}</a></q-td>'
CHART_TOOLS = (  # icon, purpose, what page.js does
    ("zoom_in", "zoom: then drag over the chart", "zoomChart(event.target)"),
    ("zoom_out_map", "show all", "showAll(event.target)"),
    ("table_rows", "show as a table", "showTable(event.target)"),
    ("image", "save as PNG", "saveChart(event.target, 'png')"),
    ("polyline", "save as SVG", "saveChart(event.target, 'svg')"),
)


def link_to(page: str, name: str) -> str:
    """The address of a run's or a sweep's page."""
    return f"/{page}/{quote(name)}"


def page_frame(title: str) -> Element:
    """Begin a page; its content goes into the element that is returned."""
    ui.add_css(STYLE)
    ui.add_body_html(f"<script>{SCRIPT}</script>")
    ui.page_title(title)
    ui.colors(primary=COLOURS[0])
    with ui.element("header").classes("bar"):
        ui.link("rl-platform", "/").classes("home")
        ui.label(title).classes("where")
    return ui.element("main").classes("main")


async def show_page(title: str, build: Callable[[], Awaitable[None]]) -> None:
    """A page with what `build` adds to it, or with the sentence of its PageError.

    The browser shows its frame before `build` begins, so a page opens at once, however long its files take to read.
    """
    with page_frame(title):
        waiting = ui.label("Reading the files …").classes("soft")
        try:
            await ui.context.client.connected(timeout=CONNECT_SECONDS)
            waiting.delete()
            await build()
        except TimeoutError:  # the browser has gone
            pass
        except PageError as error:
            show_notices(notices(), [str(error)])


def icon_button(icon: str, purpose: str, script: str) -> None:
    button = ui.button(icon=icon, color=None).props("flat round dense size=sm").classes("tool").tooltip(purpose)
    button.props["aria-label"] = purpose
    button.on("click", js_handler=f"event => {{ {script} }}")


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


def notices() -> ui.label:
    """A place for sentences about what is missing or cannot be read."""
    return ui.label().classes("notice")


def show_notices(place: ui.label, sentences: Iterable[str]) -> None:
    place.set_text("\n".join(dict.fromkeys(sentences)))
    place.set_visibility(bool(place.text))


def table(rows: Sequence[Mapping[str, Any]], *, left: Collection[str], wide: Collection[str] = ()) -> ui.table:
    """A table with a column for each field but `link`, where the first one leads.

    Those that are `wide` are left out on narrow screens.
    """
    columns = [
        {"name": name, "label": name, "field": name, "align": "left" if name in left else "right",
         "classes": "wide" if name in wide else "", "headerClasses": "wide" if name in wide else ""}
        for name in rows[0]
        if name != "link"
    ]  # fmt: skip
    numbered = [{"id": place, **row} for place, row in enumerate(rows)]
    pages = MOST_ROWS if len(rows) > MOST_ROWS else None
    made = ui.table(rows=numbered, columns=columns, row_key="id", pagination=pages).props("flat dense")
    if "link" in rows[0]:
        made.add_slot(f"body-cell-{columns[0]['name']}", LINK_CELL)
    return made


class ChartCard:
    """A chart with its title and buttons."""

    def __init__(self, title: str, options: ChartOptions, *, large: bool = False) -> None:
        with ui.element("section").classes("card") as self.section:
            with ui.element("div").classes("row").style("gap: 4px"):
                ui.label(title).classes("card-title")
                with ui.element("div").classes("tools"):
                    for tool in CHART_TOOLS if "dataZoom" in options else CHART_TOOLS[2:]:
                        icon_button(*tool)
            self._chart = ui.echart(options).classes("chart large" if large else "chart")
        self._fit()

    def update(self, options: ChartOptions) -> None:
        """Draw the chart anew; the zoom stays."""
        self._chart.options.clear()
        self._chart.options.update(options)
        self._fit()
        self._chart.update()

    def _fit(self) -> None:
        """Make room for the labels below the chart, and for the axes of options."""
        legend = self._chart.options.get("legend", {})
        if legend.get("orient") == "vertical":
            self._chart.style(f"height: {340 + label_height(len(legend['data']))}px")
        axes = len(self._chart.options.get("parallelAxis", ()))
        if axes:
            self._chart.style(f"min-width: {100 * axes}px")
