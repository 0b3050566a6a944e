"""Tabs of a run about its files: configuration, console, checkpoints, evaluations and videos."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nicegui import ui

from dashboard.page_parts import heading, link_to, notice, table
from dashboard.results import Results, file_stamp, printable
from option_flags import OPTIONS, TOPICS, defaults_beside
from options.command_line import UNSET
from options.rules import described
from reports.number_format import age, count_or_nothing, file_size, game_return
from run_files.growing_file import last_lines
from run_files.job_runs import JOB_LOG, is_job
from run_files.metrics import EPISODES, EVALUATIONS, METRICS
from run_files.run_folder import CHECKPOINTS, CONFIG, MESSAGES, SUMMARY, VIDEOS, read_summary
from run_files.run_reader import RunReader

LOG_LINES = 400
MOST_VIDEOS = 24
NUMBERS = (METRICS, EPISODES, EVALUATIONS, CONFIG, SUMMARY)
FILE_CELL = '<q-td :props="props"><a :href="props.row.link" download>{{ props.row.file }}</a></q-td>'


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
        self._stamp: object = None
        self._place = ui.column().classes("w-full gap-3")
        self.update()

    def update(self) -> None:
        stamp = [file_stamp(path) for path in (self._log, self._folder / SUMMARY)]
        if stamp == self._stamp:
            return
        self._stamp = stamp
        self._place.clear()
        with self._place:
            go_on = read_summary(self._folder).get("go_on")
            if isinstance(go_on, str):
                ui.label("Resume with:").classes("soft")
                with ui.element("div").classes("card w-full"):
                    ui.label(go_on).classes("console mono")
            try:
                lines = last_lines(self._log, LOG_LINES) if self._readable else []
            except OSError as error:
                notice(f"{self._log.name} cannot be read ({error.strerror}).")
                return
            with ui.element("div").classes("card w-full newest-last"):
                ui.label("\n".join(lines) or "There are no messages.").classes("console mono")


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
        evaluations = self._data.history.evaluations
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
                table([self._file_row(*file) for file in checkpoints], left=("file",)).add_slot(
                    "body-cell-file", FILE_CELL
                )
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
        ui.link(printable(Path(path.name)), self._link(path)).classes("plain").props("download")

    def _file_row(self, path: Path, written: float, nbytes: int) -> dict[str, str]:
        name = printable(Path(path.name))
        return {"file": name, "size": file_size(nbytes), "age": age(written, time.time()), "link": self._link(path)}

    def _files(self, folder: str, pattern: str) -> list[tuple[Path, float, int]]:
        """The files in a folder of the run with their time and size, the newest first."""
        found = []
        for path in (self._folder / folder).glob(pattern):
            stamp = file_stamp(path)
            if stamp is not None and self._results.inside(path):
                found.append((path, *stamp))
        return sorted(found, key=lambda item: (-item[1], item[0].name))


def _evaluation_row(row: Mapping[str, float]) -> dict[str, str]:
    return {
        "steps": count_or_nothing(row.get("agent_steps")),
        "games": count_or_nothing(row.get("eval_episodes")),
        "mean return": game_return(row.get("eval_return_mean")),
        "lowest": game_return(row.get("eval_return_min")),
        "highest": game_return(row.get("eval_return_max")),
    }
