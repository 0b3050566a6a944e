"""The page of one run: its state, its charts, and tabs about its files."""

import json
import time
from asyncio import to_thread
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nicegui import ui
from rich.filesize import decimal

from dashboard.agent_tab import AgentTab
from dashboard.chart_tabs import CurveTab
from dashboard.page_parts import fact, heading, link_to, notices, show_notices, state_class, table
from dashboard.results import AT_WORK, SPEED, UNREADABLE, PageError, Results, RunRow, file_stamp
from option_flags import OPTIONS, TOPICS, defaults_beside
from options.command_line import UNSET
from options.rules import described
from reports.number_format import NOTHING_YET, age, count, on_page
from reports.panels import learning_panels, machine_panels, replay_panels
from run_files.metrics import EPISODES, EVALUATIONS, METRICS, last_lines
from run_files.run_folder import CHECKPOINTS, CONFIG, JOB_LOG, MESSAGES, SUMMARY, VIDEOS, is_job, read_json
from run_files.run_reader import RunReader

REFRESH_SECONDS = 2.0
FACTS = {"mean return": "return_mean", "best game": "return_max", "agent steps": "agent_steps", "done": "done",
         "steps/s": SPEED, "training time": "seconds", "left": "seconds_left"}  # fmt: skip
LOG_LINES = 400
MOST_VIDEOS = 24
NUMBERS = (METRICS, EPISODES, EVALUATIONS, CONFIG, SUMMARY)


class RunView:
    def __init__(self, results: Results, name: str) -> None:
        self._results = results
        self._name = name
        self._row: RunRow | None = None

    async def build(self) -> None:
        self._folder = await to_thread(self._results.run, self._name)
        self._data = self._results.reader(self._folder)
        await self._read()
        self._build_head()
        self._notices = notices()
        self._make_tab: dict[str, Callable[[], Any]] = {
            "Curves": lambda: CurveTab(self._data, learning_panels, with_returns=True),
            "Machine": lambda: CurveTab(self._data, machine_panels),
            "Replays": lambda: CurveTab(self._data, replay_panels),
            "Configuration": lambda: configuration_tab(self._data.config),
            "Console": lambda: ConsoleTab(self._results, self._folder),
            "Files": lambda: FilesTab(self._results, self._folder, self._data),
            "Agent": lambda: AgentTab(self._results, self._folder),
        }
        self._bar = ui.tabs(on_change=self._open_tab).props("dense align=left no-caps outside-arrows mobile-arrows")
        self._places: dict[str, ui.column] = {}
        self._opened: dict[str, Any] = {}  # the tabs that have been open
        with ui.tab_panels(self._bar, animated=False).classes("w-full"):
            for label in self._make_tab:
                with self._bar:
                    ui.tab(label)
                with ui.tab_panel(label):
                    self._places[label] = ui.column().classes("w-full gap-4")
        self._show()
        self._bar.set_value("Curves")
        ui.timer(REFRESH_SECONDS, self._refresh, immediate=False)

    async def _read(self) -> bool:
        changed = await to_thread(self._data.refresh)
        row = await to_thread(self._results.row, self._results.name(self._folder)) or self._row
        changed |= row != self._row
        self._row = row
        return changed

    async def _refresh(self) -> None:
        changed = await self._read()
        self._show()  # in any case: times pass
        if changed or self._bar.value in ("Console", "Files"):
            self._open_tab()

    def _open_tab(self) -> None:
        """Build the content of the open tab when it is opened first; bring it up to date later."""
        label = str(self._bar.value)
        if label != "Agent" and "Agent" in self._opened:
            self._opened["Agent"].pause()
        if label not in self._opened:
            with self._places[label]:
                self._opened[label] = self._make_tab[label]()
        elif hasattr(self._opened[label], "update"):
            self._opened[label].update()

    def _build_head(self) -> None:
        row = self._row
        with ui.element("div").classes("row"):
            heading(1, row.game if row and row.game else self._folder.name)
            self._state = ui.label()
            if row and row.sweep:
                name = "this folder" if row.sweep == "." else f"sweep {row.sweep}"
                ui.link(name, link_to("sweep", row.sweep)).classes("plain")
            self._about = ui.label().classes("soft")
        with ui.element("section").classes("card facts"):
            self._facts = {name: fact(name, NOTHING_YET) for name in (*FACTS, "last report")}
        self._why = ui.label().classes("soft")
        self._kept = row.notes if row else ""  # as they were read or written last
        self._notes = ui.textarea(value=self._kept, placeholder="notes on this run")
        self._notes.props("dense outlined autogrow aria-label=notes maxlength=20000").classes("w-full")
        self._notes.on("blur", self._keep_notes)

    async def _keep_notes(self) -> None:
        text = str(self._notes.value or "")
        if self._row is None or text == self._kept:
            return
        try:
            await to_thread(self._results.write_notes, self._folder, text)
            self._kept = text
            ui.notify("kept in notes.txt")
        except PageError as error:
            ui.notify(str(error))

    def _show(self) -> None:
        show_notices(self._notices, self._data.problems)
        row = self._row
        if row is None:
            return
        self._state.set_text(row.state)
        self._state.classes(replace=state_class(row.state))
        self._why.set_text("" if row.state == UNREADABLE else row.why)  # a notice says that already
        self._why.set_visibility(bool(self._why.text))
        told = (f"seed {row.options.get('seed')}", row.options.get("run_name"), row.options.get("tags"), row.times)
        self._about.set_text(" · ".join(str(each) for each in told if each))
        for name, figure in FACTS.items():
            self._facts[name].set_text(row.text(figure))
        if row.state != AT_WORK:
            self._facts["steps/s"].set_text(row.text("mean_speed"))
            self._facts["left"].set_text(NOTHING_YET)
        self._facts["last report"].set_text(age(row.written, time.time()))


def may_download(path: Path) -> bool:
    """Whether this is a file that the page of a run offers."""
    if path.name in NUMBERS:
        return (path.parent / CONFIG).is_file()
    return (path.parent.name, path.suffix) in ((CHECKPOINTS, ".pt"), (VIDEOS, ".mp4"))


def configuration_tab(config: Mapping[str, Any]) -> None:
    """All options by topic; those that differ from their defaults in bold, with the default as a tooltip."""
    values: dict[str, Any] = dict(config.get("options", {}))
    defaults = defaults_beside(values)
    ui.label("Bold: differs from the default.").classes("soft")
    with ui.element("div").classes("card options w-full"):
        for topic in TOPICS.values():
            _group(topic.topic, {name: values[name] for name in topic.__dataclass_fields__ if name in values}, defaults)
        _group("Of other versions", {name: value for name, value in values.items() if name not in OPTIONS}, {})
        chosen = {"network": config["network"]} if "network" in config else {}  # what `auto` has come to
        _group("Machine", {**(config.get("machine") or {}), **chosen}, {})


def _group(title: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    if not values:
        return
    with ui.element("div").classes("group"):
        heading(2, title)
        for name, value in values.items():
            differs = name in defaults and value != defaults[name] and name not in ("op_mode", "results_dir")
            with ui.element("div").classes("option differs" if differs else "option"):
                key = ui.label(name).classes("key")
                ui.label(_in_words(value)).classes("of mono")
                if name in defaults:
                    default = UNSET if defaults[name] is None else _in_words(defaults[name])
                    key.tooltip(f"{described(OPTIONS[name])} Default: {default}.")


def _in_words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class ConsoleTab:
    """The messages of the run, or all that it wrote if a sweep started it, and how it goes on."""

    def __init__(self, results: Results, folder: Path) -> None:
        self._folder = folder
        log = folder.parent / JOB_LOG
        self._log = log if is_job(folder.parent) and log.exists() else folder / MESSAGES
        self._readable = results.inside(self._log)
        ui.label("Resume with:").classes("soft")
        self._go_on = ui.label().classes("card w-full console mono")
        with ui.element("div").classes("card w-full newest-last"):
            self._lines = ui.label().classes("console mono")
        self.update()

    def update(self) -> None:
        summary = read_json(self._folder / SUMMARY) or {}
        self._go_on.set_text(str(summary.get("go_on") or NOTHING_YET))
        try:
            text = "\n".join(last_lines(self._log, LOG_LINES)) if self._readable else ""
            self._lines.set_text(text or "There are no messages.")
        except OSError as error:
            self._lines.set_text(f"{self._log.name} cannot be read ({error.strerror}).")


class FilesTab:
    """Figures, checkpoints, evaluations and videos, as they come."""

    def __init__(self, results: Results, folder: Path, data: RunReader) -> None:
        self._results = results
        self._folder = folder
        self._data = data
        self._shown: object = None
        self._place = ui.column().classes("w-full gap-3")
        self.update()

    def update(self) -> None:
        checkpoints, videos = self._files(CHECKPOINTS, "*.pt"), self._files(VIDEOS, "*.mp4")
        columns = self._data.history.evaluations
        evaluations = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        shown = (checkpoints, videos, len(evaluations))
        if shown == self._shown:
            return
        self._shown = shown
        self._place.clear()
        with self._place:
            heading(2, "Figures")
            with ui.element("div").classes("row"):
                for name in NUMBERS:
                    if (self._folder / name).is_file():
                        self._download(self._folder / name)
            heading(2, "Checkpoints")
            if checkpoints:
                now = time.time()
                rows = [
                    {"file": path.name, "size": decimal(nbytes), "age": age(written, now), "link": self._link(path)}
                    for path, written, nbytes in checkpoints
                ]
                table(rows, left=("file",))
            else:
                ui.label("None yet.").classes("soft")
            if evaluations:
                heading(2, "Evaluations")
                table([_evaluation_row(row) for row in evaluations][::-1], left=("steps",))
            heading(2, "Videos")
            if not videos:
                ui.label("None yet; --render makes them, with --eval_period during training.").classes("soft")
            with ui.element("div").classes("videos w-full"):
                for path, _, _ in videos[:MOST_VIDEOS]:
                    with ui.element("figure").classes("card").style("margin: 0"):
                        ui.video(self._link(path)).props("preload=metadata")
                        self._download(path)

    def _link(self, path: Path) -> str:
        return link_to("file", self._results.name(path))

    def _download(self, path: Path) -> None:
        ui.link(path.name, self._link(path)).classes("plain")

    def _files(self, folder: str, pattern: str) -> list[tuple[Path, float, int]]:
        """The files in a folder of the run with their time and size, the newest first."""
        found = []
        for path in (self._folder / folder).glob(pattern):
            if (stamp := file_stamp(path)) is not None and path.name.isprintable() and self._results.inside(path):
                found.append((path, *stamp))
        return sorted(found, key=lambda item: (-item[1], item[0].name))


def _evaluation_row(row: Mapping[str, float]) -> dict[str, str]:
    return {
        "steps": count(row.get("agent_steps")),
        "games": count(row.get("eval_episodes")),
        "mean return": on_page(row.get("eval_return_mean")),
        "lowest": on_page(row.get("eval_return_min")),
        "highest": on_page(row.get("eval_return_max")),
    }
