"""A tab in which the agent plays live: the screen, what the network sees, its probabilities and its value."""

import threading
import time
from asyncio import to_thread
from base64 import b64encode
from collections import deque
from pathlib import Path

import numpy as np
from nicegui import ui

from dashboard.charts import ChartOptions, Frame, Line, line_chart
from dashboard.live.picture import LivePicture
from dashboard.live.player import LiveGameEndedError, LivePlayer
from dashboard.page_parts import fact
from dashboard.results_folder import ResultsFolder
from reports.number_format import count_or_nothing, game_return
from reports.panels import MEAN
from run_files.run_folder import CHECKPOINTS

PICTURE_SECONDS = 1 / 15  # most games make 15 agent steps in a second
FIGURE_SECONDS = 0.25  # between two updates of bars and curves
SALIENCY_SECONDS = 0.6
SHOWN_SECONDS = 20.0  # of the value
UNSEEN_SECONDS = 2.0  # a picture is sent again if the browser has not confirmed the last one for so long
HIDDEN_CHECK_SECONDS = 10.0
NEWEST = "the newest, as they come"
NOBODY_LOOKED = "The game has ended, because nobody looked."


class LiveTab:
    """Play starts a process; it ends with Stop, with another tab, with the page, and when the page is hidden."""

    def __init__(self, results: ResultsFolder, folder: Path) -> None:
        self._results = results
        self._folder = folder
        self._player: LivePlayer | None = None
        self._paused = False  # since the last click on Play
        self._busy = False
        self._sent = self._figures_at = self._salient_at = 0.0
        self._unseen = False
        self._values: deque[tuple[float, float]] = deque()
        self._bars: list[tuple[ui.label, ui.element, ui.label]] = []
        with ui.element("div").classes("row"):
            self._choice = ui.select([NEWEST, *self._checkpoints()], value=NEWEST, label="checkpoint")
            self._choice.props("dense outlined").style("min-width: 240px").on("popup-show", self._find_checkpoints)
            self._button = ui.button("Play", on_click=self._toggle).props("unelevated")
            self._saliency = ui.checkbox("saliency").props("dense")
            self._saliency.tooltip("Where blurring a place changes the policy (orange) or the value (blue)")
        self._message = ui.label("The agent plays in a process of its own, at the lowest priority.").classes("soft")
        self._stage = ui.element("div").classes("live w-full")
        self._stage.set_visibility(False)
        with self._stage:
            self._build_stage()
        ui.timer(PICTURE_SECONDS, self._show_next)
        ui.timer(HIDDEN_CHECK_SECONDS, self._pause_if_hidden)
        ui.context.client.on_disconnect(self.pause)
        ui.context.client.on_delete(self.pause)

    def _build_stage(self) -> None:
        with ui.column().classes("gap-3"):
            with ui.element("div").classes("card"):
                self._screen = _picture("the screen of the game").classes("screen")
                self._screen.on("load", self._confirm, args=[])
            with ui.element("div").classes("card facts"):
                names = ("score", "step", "last scores", "checkpoint, steps")
                self._facts = {name: fact(name, "—") for name in names}
        with ui.column().classes("gap-3"):
            with ui.element("div").classes("card"):
                ui.label("What the network sees").classes("card-title")
                with ui.element("div").classes("view"):
                    self._seen = _picture("the newest frame of the observation")
                    self._salient = _picture("saliency")
                    self._salient.set_visibility(False)
                self._stack = _picture("all frames of the observation").style("margin-top: 6px")
            with ui.element("div").classes("card"):
                ui.label("Probabilities of the actions").classes("card-title")
                self._bar_place = ui.element("div").classes("bars")
            with ui.element("div").classes("card"):
                ui.label(f"Value, last {SHOWN_SECONDS:.0f} seconds").classes("card-title")
                self._value_chart = ui.echart(_value_options([])).style("height: 150px")

    def pause(self) -> None:
        """End the process, if there is one, or if one is about to start."""
        self._paused = True
        player, self._player = self._player, None
        if player is not None:
            _close(player)
            self._button.set_text("Play")

    def _checkpoints(self) -> list[str]:
        folder = self._folder / CHECKPOINTS
        best = [name for name in ("best.pt", "best_eval.pt") if (folder / name).is_file()]
        names = (path.name for path in folder.glob("checkpoint_*.pt") if path.name.isprintable())
        return [*best, *sorted(names, reverse=True)]

    def _find_checkpoints(self) -> None:
        self._choice.set_options([NEWEST, *self._checkpoints()])

    async def _toggle(self) -> None:
        if not self._button.enabled:  # a second click, sent before the page knew
            return
        if self._player is not None:
            self.pause()
            return
        chosen = None if self._choice.value in (NEWEST, None) else str(self._choice.value)
        if chosen is not None and chosen not in self._checkpoints():
            self._message.set_text(f"{chosen} is not there any more.")
            return
        self._message.set_text("The game starts …")
        self._button.disable()
        self._paused = False
        try:
            player = await to_thread(LivePlayer, self._folder, self._results.root, chosen)
        except LiveGameEndedError as error:
            self._message.set_text(str(error))
            return
        finally:
            self._button.enable()
        if self._paused:
            _close(player)
            self._message.set_text(NOBODY_LOOKED)
            return
        self._player = player
        self._values.clear()
        self._unseen = False
        self._button.set_text("Stop")

    async def _show_next(self) -> None:
        """Show the next picture, unless the browser is still busy with the last one."""
        player, now = self._player, time.monotonic()
        if player is None or self._busy or (self._unseen and now - self._sent < UNSEEN_SECONDS):
            return
        self._busy = True
        salient = bool(self._saliency.value) and now - self._salient_at > SALIENCY_SECONDS
        try:
            picture = await to_thread(player.picture, salient)
        except LiveGameEndedError as error:
            if player is self._player:
                self.pause()
                self._message.set_text(str(error))
            return
        finally:
            self._busy = False
        if player is self._player:
            self._show(picture)

    def _confirm(self) -> None:
        self._unseen = False

    def _show(self, picture: LivePicture) -> None:
        now = time.monotonic()
        self._stage.set_visibility(True)
        self._screen.props["src"] = _as_url(picture.screen)
        self._seen.props["src"] = _as_url(picture.seen)
        self._sent, self._unseen = now, True
        if picture.salient is not None:
            self._salient.props["src"] = _as_url(picture.salient)
            self._salient_at = now
        self._salient.set_visibility(bool(self._saliency.value) and "src" in self._salient.props)
        self._values.extend(picture.values)
        if now - self._figures_at > FIGURE_SECONDS:
            self._figures_at = now
            self._show_figures(picture)

    def _show_figures(self, picture: LivePicture) -> None:
        self._stack.props["src"] = _as_url(picture.stack)
        self._message.set_text(picture.note or f"playing {picture.checkpoint}")
        self._facts["score"].set_text(game_return(picture.score))
        self._facts["step"].set_text(f"{picture.steps:,}")
        self._facts["last scores"].set_text(", ".join(map(game_return, picture.scores[:-4:-1])) or "—")
        self._facts["checkpoint, steps"].set_text(count_or_nothing(picture.agent_steps))
        if len(self._bars) != len(picture.actions):
            self._build_bars(picture.actions)
        for index, (probability, bar) in enumerate(zip(picture.probabilities, self._bars, strict=True)):
            name, fill, share = bar
            name.classes(replace="chosen" if index in picture.chosen else "")
            fill.style(replace=f"width: {probability:.1%}")
            share.set_text(f"{probability:.0%}")
        while self._values and self._values[0][0] < self._values[-1][0] - SHOWN_SECONDS:
            self._values.popleft()
        self._value_chart.options.clear()
        self._value_chart.options.update(_value_options(list(self._values)))
        self._value_chart.update()

    def _build_bars(self, actions: tuple[str, ...]) -> None:
        self._bar_place.clear()
        self._bars = []
        with self._bar_place:
            for action in actions:
                name = ui.label(action.lower())
                with ui.element("div").classes("track"):
                    fill = ui.element("div").classes("fill")
                self._bars.append((name, fill, ui.label().style("min-width: 34px; text-align: right")))

    async def _pause_if_hidden(self) -> None:
        """A page in a tab of the browser that is not in front does not need a game."""
        if self._player is None:
            return
        try:
            hidden = await ui.run_javascript("document.hidden", timeout=HIDDEN_CHECK_SECONDS / 2)
        except TimeoutError:
            hidden = True
        if hidden and self._player is not None:
            self.pause()
            self._message.set_text(NOBODY_LOOKED)


def _close(player: LivePlayer) -> None:
    """In a thread of its own: the pages of all visitors wait for what takes long here."""
    threading.Thread(target=player.close).start()


def _picture(purpose: str) -> ui.element:
    picture = ui.element("img")
    picture.props["alt"] = purpose
    return picture


def _as_url(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode()}"


def _value_options(values: list[tuple[float, float]]) -> ChartOptions:
    points = np.array(values).reshape(-1, 2)
    line = Line("", points[:, 0] - (points[-1, 0] if len(points) else 0), points[:, 1], MEAN)
    options = line_chart([line], Frame("seconds"))
    options["xAxis"] |= {"min": -SHOWN_SECONDS, "max": 0}
    return options
