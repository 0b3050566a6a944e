"""A tab in which the agent plays live: the screen, what the network sees, its probabilities and its value."""

import time
from base64 import b64encode
from collections import deque
from html import escape
from pathlib import Path

import numpy as np
from nicegui import ui

from dashboard.charts import ChartOptions, Frame, line_chart
from dashboard.children import LiveGame, LivePicture
from dashboard.page_parts import fact
from dashboard.results import PageError, Results
from reports.number_format import NOTHING_YET, count, on_page
from reports.panels import MEAN, Line, XAxis
from run_files.run_folder import CHECKPOINTS

LOOK_SECONDS = 1 / 20  # between two looks for a new picture
FIGURES_EVERY = 4  # pictures
SHOWN_SECONDS = 20.0  # of the value
UNSEEN_SECONDS = 2.0  # a picture is sent again if the browser has not confirmed the last one for so long
NEWEST = "the newest, as they come"
NOBODY_LOOKED = "The game has ended, because nobody looked."
CARDS = SEEN, PROBABILITIES, VALUE = (
    "What the network sees",
    "Probabilities of the actions",
    f"Value, last {SHOWN_SECONDS:.0f} seconds",
)
MEANS, BOTH = "Means of the actions, from −1 to 1", "Probabilities of choices, and means from −1 to 1"
FACTS = ("score", "step", "last scores", "checkpoint, steps")


class AgentTab:
    """Play starts a process; it ends with Stop, with another tab, with the page, and when the page is hidden."""

    def __init__(self, results: Results, folder: Path) -> None:
        self._results = results
        self._folder = folder
        self._game: LiveGame | None = None
        self._count = 0  # of pictures
        self._sent = 0.0
        self._unseen = False
        self._values: deque[tuple[float, float]] = deque()
        with ui.element("div").classes("row"):
            self._choice = ui.select([NEWEST, *self._checkpoints()], value=NEWEST, label="checkpoint")
            self._choice.props("dense outlined").style("min-width: 240px")
            self._choice.on_value_change(self._play_chosen)
            self._choice.on("popup-show", lambda: self._choice.set_options([NEWEST, *self._checkpoints()]))
            self._button = ui.button("Play", on_click=self._toggle).props("unelevated")
            self._saliency = ui.checkbox("saliency", on_change=self._choose_saliency).props("dense")
            self._saliency.tooltip("Where blurring a place changes the policy (orange) or the value (blue)")
        self._message = ui.label("The agent plays in a process of its own, at the lowest priority.").classes("soft")
        with ui.element("div").classes("live w-full") as self._stage:
            self._build_stage()
        self._stage.set_visibility(False)
        ui.timer(LOOK_SECONDS, self._show_next)
        ui.on("page_hidden", lambda: self.pause(NOBODY_LOOKED))
        ui.context.client.on_disconnect(lambda: self.pause(NOBODY_LOOKED))
        ui.context.client.on_delete(self.pause)

    def _build_stage(self) -> None:
        with ui.column().classes("gap-3"):
            with ui.element("div").classes("card"):
                self._screen = _picture("the screen of the game").classes("screen")
                self._screen.on("load", self._confirm, args=[])
            with ui.element("div").classes("card facts"):
                self._facts = {name: fact(name, NOTHING_YET) for name in FACTS}
        with ui.column().classes("gap-3"):
            with ui.element("div").classes("card"):
                ui.label(SEEN).classes("card-title")
                with ui.element("div").classes("view") as self._view:
                    self._seen = _picture("the newest frame of the observation")
                    self._salient = _picture("saliency")
                    self._salient.set_visibility(False)
                self._stack = _picture("all frames of the observation").style("margin-top: 6px")
                self._vector = ui.label().classes("mono vector")
            with ui.element("div").classes("card"):
                self._policy = ui.label(PROBABILITIES).classes("card-title")
                self._bars = ui.html(sanitize=False).classes("bars")
            with ui.element("div").classes("card"):
                self._value_chart = ui.echart(_value_options([])).style("height: 170px")

    def pause(self, why: str = "") -> None:
        """End the process, if there is one."""
        if self._game is None:
            return
        self._game.close()
        self._game = None
        self._button.set_text("Play")
        self._message.set_text(why)

    def _checkpoints(self) -> list[str]:
        folder = self._folder / CHECKPOINTS
        best = [name for name in ("best.pt", "best_eval.pt") if (folder / name).is_file()]
        names = (path.name for path in folder.glob("checkpoint_*.pt") if path.name.isprintable())
        return [*best, *sorted(names, reverse=True)]

    def _toggle(self) -> None:
        if self._game is None:
            self._play()
        else:
            self.pause()

    def _play_chosen(self) -> None:
        """Go on with another checkpoint, if the agent plays."""
        if self._game is not None:
            self.pause()
            self._play()

    def _play(self) -> None:
        chosen = None if self._choice.value in (NEWEST, None) else str(self._choice.value)
        # The choice comes from the browser, which can send any name.
        if chosen is not None and chosen not in self._checkpoints():
            self._message.set_text(f"{chosen} is not there any more.")
            return
        self._message.set_text("The game starts …")
        try:
            self._game = LiveGame(self._folder, self._results.root, chosen)
        except PageError as error:
            self._message.set_text(str(error))
            return
        self._choose_saliency()
        self._values.clear()
        self._unseen = False
        self._button.set_text("Stop")

    def _choose_saliency(self) -> None:
        if self._game is not None:
            self._game.show_saliency(bool(self._saliency.value))

    def _show_next(self) -> None:
        """Show the newest picture, unless the browser is still busy with the last one."""
        if self._game is None:
            return
        try:
            pictures = self._game.new_pictures()
        except PageError as error:
            self.pause(str(error))
            return
        for picture in pictures:
            self._values.extend(picture.values)
            if picture.salient is not None:
                self._salient.props["src"] = _as_url(picture.salient)
        if pictures and not (self._unseen and time.monotonic() - self._sent < UNSEEN_SECONDS):
            self._show(pictures[-1])

    def _confirm(self) -> None:
        self._unseen = False

    def _show(self, picture: LivePicture) -> None:
        self._stage.set_visibility(True)
        self._screen.props["src"] = _as_url(picture.screen)
        self._sent, self._unseen = time.monotonic(), True
        if picture.seen is not None:
            self._seen.props["src"] = _as_url(picture.seen)
        self._salient.set_visibility(bool(self._saliency.value) and "src" in self._salient.props)
        if self._count % FIGURES_EVERY == 0:
            self._show_figures(picture)
        self._count += 1

    def _show_figures(self, picture: LivePicture) -> None:
        if picture.stack is not None:
            self._stack.props["src"] = _as_url(picture.stack)
        for place in (self._view, self._stack, self._saliency):
            place.set_visibility(picture.stack is not None)
        self._vector.set_text("  ".join(f"{number:.3g}".replace("-", "−") for number in picture.vector))
        self._message.set_text(f"playing {picture.checkpoint}")
        last = ", ".join(map(on_page, picture.scores[:-4:-1])) or NOTHING_YET
        texts = (on_page(picture.score), f"{picture.steps:,}", last, count(picture.agent_steps))
        for name, text in zip(FACTS, texts, strict=True):
            self._facts[name].set_text(text)
        mixed = BOTH if picture.choices else MEANS
        self._policy.set_text(PROBABILITIES if picture.choices == len(picture.bars) else mixed)
        self._bars.set_content(_bars(picture))
        while self._values and self._values[0][0] < self._values[-1][0] - SHOWN_SECONDS:
            self._values.popleft()
        self._value_chart.options.clear()
        self._value_chart.options.update(_value_options(list(self._values)))
        self._value_chart.update()


def _bars(picture: LivePicture) -> str:
    """A bar for each choice, and for each real number, as HTML."""
    rows = []
    for index, (name, bar) in enumerate(zip(picture.actions, picture.bars, strict=True)):
        shown = f"{bar:.0%}" if index < picture.choices else f"{2 * bar - 1:.2f}".replace("-", "−")
        rows.append(f'<span class="{"chosen" if index in picture.chosen else ""}">{escape(name.lower())}</span>')
        rows.append(f'<div class="track"><div class="fill" style="width: {bar:.1%}"></div></div>')
        rows.append(f'<span class="share">{shown}</span>')
    return "".join(rows)


def _picture(purpose: str) -> ui.element:
    picture = ui.element("img")
    picture.props["alt"] = purpose
    return picture


def _as_url(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode()}"


def _value_options(values: list[tuple[float, float]]) -> ChartOptions:
    points = np.array(values).reshape(-1, 2)
    line = Line("", points[:, 0] - (points[-1, 0] if len(points) else 0), points[:, 1], MEAN)
    options = line_chart(VALUE, [line], Frame(XAxis("seconds", 1, "seconds")))
    options["xAxis"] |= {"min": -SHOWN_SECONDS, "max": 0}
    return options
