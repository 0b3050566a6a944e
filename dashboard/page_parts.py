"""Parts that all pages share: the frame with its theme, facts, states, notices, and cards with a chart."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.element import Element

from dashboard.charts import HEIGHT, LARGE_HEIGHT, NARROW, WIDE, ChartOptions, names_below
from dashboard.results import AT_WORK, PageError
from reports.panels import COLOURS

STYLE = Path(__file__).with_name("style.css")
SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
CONNECT_SECONDS = 60.0
MOST_ROWS = 25  # of one page of a table
LINK_CELL = '<q-td :props="props"><a :href="props.row.link">{{ props.value }}</a></q-td>'


def link_to(page: str, name: str) -> str:
    """The address of a run's or a sweep's page."""
    return f"/{page}/{quote(name)}"


async def show_page(title: str, build: Callable[[], Awaitable[None]]) -> None:
    """A page with what `build` adds to it, or with the sentence of its PageError.

    The browser shows its frame before `build` begins, so a page opens at once, however long its files take to read.
    """
    ui.add_css(STYLE)
    ui.add_body_html(f"<script>{SCRIPT}</script>")
    ui.page_title(title)
    ui.colors(primary=COLOURS[0])
    with ui.element("header").classes("bar"):
        ui.link("rl-platform", "/").classes("home")
        ui.label(title).classes("where")
    with ui.element("main").classes("main"):
        waiting = ui.label("Reading the files …").classes("soft")
        try:
            await ui.context.client.connected(timeout=CONNECT_SECONDS)
            waiting.delete()
            await build()
        except TimeoutError:  # the browser has gone
            pass
        except PageError as error:
            show_notices(notices(), [str(error)])


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


class ChartCard(Element):
    """A card with a chart, which is as high as the names below it need, and with its numbers as a table."""

    def __init__(self, options: ChartOptions, *, large: bool = False) -> None:
        super().__init__("section")
        self.classes("card")
        self._height = LARGE_HEIGHT if large else HEIGHT
        with self:
            self._chart = ui.echart(options).classes("chart")
            # The tools inside of the chart cannot be reached by keyboard, nor the chart be heard.
            numbers = ui.button("numbers").props("flat dense no-caps size=sm")
            numbers.on("click", js_handler="(event) => showNumbers(event.target)")
        self._fit()

    def show(self, options: ChartOptions) -> None:
        """Draw the chart anew; the zoom stays."""
        self._chart.options.clear()
        self._chart.options.update(options)
        self._fit()
        self._chart.update()

    def _fit(self) -> None:
        options = self._chart.options
        names, axes = options.get("legend", {}).get("data", ()), len(options.get("parallelAxis", ()))
        narrow, wide = (self._height + names_below(names, width).height for width in (NARROW, WIDE))
        self._chart.style(f"--narrow: {narrow}px; --wide: {wide}px; min-width: {100 * axes}px")
