"""The results folder: which runs and sweeps it holds, how far each is, and paths that cannot lead out of it."""

import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from options.rules import printable
from reports.compare_runs import Configuration, configuration, what_is_unusual
from reports.number_format import NOTHING_YET, formatted
from reports.scores import game_name
from run_files.metrics import EPISODES, METRICS, flat_numbers, last_report
from run_files.run_folder import CONFIG, SUMMARY, SWEEP_FILE, read_config, read_json, write_atomically
from run_files.run_reader import RunReader, options_of, weights_of

AT_WORK, FINISHED, STOPPED, FAILED, UNREADABLE = "at work", "finished", "stopped", "failed", "unreadable"
STATES = (AT_WORK, FINISHED, STOPPED, FAILED, UNREADABLE)
SILENT_SECONDS = 300.0  # a run that wrote nothing for so long, or for several reports, is not at work
SILENT_REPORTS = 5
SCAN_SECONDS = 2.0  # shortest time between two looks at the folder, whatever the number of open pages
SCAN_SHARE = 0.005  # at most this share of a core is used for looking: thousands of runs are looked at less often
MAX_DEPTH = 4  # folders between the results folder and a run; a sweep needs two
MOST_REPORTS = 2000  # of a run, as its curves need them
SPEED = "steps_per_second"
NOTES, LONGEST_NOTES = "notes.txt", 20_000  # what people write about a run, in its folder; characters
RUN_FILES = (CONFIG, SUMMARY, METRICS, EPISODES, NOTES)
MADE_AT = re.compile(r"_(\d{9,11})$")  # the end of the name of a run's folder: the unix time of its start
LONGEST_WORDS = 120

Stamp: TypeAlias = tuple[tuple[float, int] | None, ...]  # of some files


class PageError(Exception):
    """Something cannot be shown. The message is a sentence for the page."""


@dataclass(frozen=True)
class RunRow:
    """What the list knows of one run."""

    name: str
    folder: Path
    state: str
    why: str = ""  # the reason of the state, as a sentence
    sweep: str = ""  # the name of the sweep that it belongs to; "." if this is the results folder itself
    options: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)  # of the newest report, and newer ones of the summary
    notes: str = ""
    started: float = 0.0  # unix time
    written: float = 0.0  # unix time at which the run last wrote something
    compared: Configuration | None = None  # how it is compared with others

    @property
    def game(self) -> str:
        return game_name(str(self.options.get("env", "")))

    def text(self, figure: str) -> str:
        """A figure for a page, with the sign of mathematics."""
        return formatted(figure, self.figures.get(figure)).replace("-", "−")

    @property
    def times(self) -> str:
        """When it was started, how long it has trained, and how fast it was."""
        return f"{self.begun} · {self.text('seconds')} · {self.text('mean_speed')} steps/s"

    @property
    def begun(self) -> str:
        return time.strftime("%d %b %y %H:%M", time.localtime(self.started)) if self.started else NOTHING_YET


def words_about(rows: Sequence[RunRow]) -> dict[Path, str]:
    """What tells each of these runs from the others, by its folder: its seed, options, tags and notes."""
    known = [row for row in rows if row.compared is not None]
    unusual = what_is_unusual([row.compared for row in known if row.compared is not None])
    found = {}
    for row, words in zip(known, unusual, strict=True):
        tags, notes = str(row.options.get("tags") or ""), row.notes.partition("\n")[0]
        about = " · ".join(filter(None, (f"seed {row.options.get('seed')}", words, tags, notes)))
        found[row.folder] = about if len(about) <= LONGEST_WORDS else f"{about[: LONGEST_WORDS - 1]}…"
    return found


@dataclass(frozen=True)
class SweepRow:
    name: str
    counts: str = ""  # how many of its runs have which status: `3 done, 1 running, 2 waiting`
    problem: str = ""


def file_stamp(path: Path) -> tuple[float, int] | None:
    """The time and the size of a file: while both stay the same, so does its content. None if it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime, status.st_size


class Results:
    """The results folder. Only notes are ever written to it. Safe to use in threads.

    All names are relative to the folder, with slashes, such as `sweep/job/run`. A folder whose name a page cannot show,
    such as one with bytes that are not UTF-8, is left out.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.time) -> None:
        self.root = root.resolve()
        self.shown_root = printable(str(self.root))
        self._clock = clock
        self._lock = threading.Lock()  # held by the thread that reads the files
        self._runs: dict[Path, tuple[Stamp, RunRow]] = {}
        self._listed: tuple[list[RunRow], list[SweepRow]] = [], []
        self._next_scan = -math.inf

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def inside(self, path: Path) -> bool:
        """Whether the path, with its symbolic links followed, lies in the results folder."""
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a name that the system refuses
            return False

    def place(self, name: str) -> Path:
        """The existing path of this name. Raises PageError if it is missing or leads out of the folder."""
        try:
            path = (self.root / name).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise PageError(
                f"There is no {name or 'such file'} in {self.shown_root}; it may have been deleted."
            ) from None
        if not path.is_relative_to(self.root):
            raise PageError(f"{name} is not in {self.shown_root}.")
        return path

    def run(self, name: str) -> Path:
        """The folder of the run of this name."""
        return self._folder_with(CONFIG, name, "run")

    def sweep(self, name: str) -> Path:
        return self._folder_with(SWEEP_FILE, name, "sweep")

    def _folder_with(self, file: str, name: str, kind: str) -> Path:
        path = self.place(name)
        if not (path / file).is_file():
            raise PageError(f"{name or self.shown_root} is not the folder of a {kind}: it has no {file}.")
        return path

    def reader(self, folder: Path, *, with_games: bool = True, most_reports: int = MOST_REPORTS) -> RunReader:
        """What reads the curves of a run as they grow; parents elsewhere are not read."""
        return RunReader(folder, with_games=with_games, within=self.inside, most_reports=most_reports)

    def write_notes(self, folder: Path, text: str) -> None:
        """Keep a text in the folder of a run, in place of the one before it."""
        if not self.inside(folder):
            raise PageError("The folder of this run is elsewhere.")
        try:
            write_atomically(folder / NOTES, text[:LONGEST_NOTES].encode(errors="replace"))
        except OSError as error:
            raise PageError(f"{NOTES} cannot be written ({error.strerror}).") from None

    def rows(self) -> tuple[list[RunRow], list[SweepRow]]:
        """All runs and sweeps as they were some seconds ago. Call it in a thread: the disk may be slow."""
        with self._lock:
            if time.monotonic() >= self._next_scan:
                before = time.thread_time()
                self._listed = self._scan(self._clock())
                took = time.thread_time() - before
                self._next_scan = time.monotonic() + max(SCAN_SECONDS, took / SCAN_SHARE)
            return self._listed

    def row(self, name: str) -> RunRow | None:
        return next((row for row in self.rows()[0] if row.name == name), None)

    def find(self) -> tuple[list[Path], list[Path]]:
        """The folders of all runs and of all sweeps. Symbolic links are not followed, and folders in a run are none."""
        runs, sweeps = [], []
        depth_of_root = str(self.root).count(os.sep)
        for folder, folders, files in os.walk(self.root):
            if CONFIG in files:
                runs.append(Path(folder))
            elif SWEEP_FILE in files:
                sweeps.append(Path(folder))
            is_end = CONFIG in files or folder.count(os.sep) - depth_of_root >= MAX_DEPTH
            folders[:] = [] if is_end else [n for n in folders if not n.startswith(".") and n.isprintable()]
        return runs, sweeps

    def _scan(self, now: float) -> tuple[list[RunRow], list[SweepRow]]:
        runs, sweeps = self.find()
        self._runs = {folder: self._up_to_date(folder) for folder in runs}
        sweep_rows = {folder: _read_sweep(folder, self.name(folder)) for folder in sweeps}
        rows = []
        for folder, (_, row) in self._runs.items():
            sweep = next((sweep_rows[place].name for place in folder.parents if place in sweep_rows), "")
            rows.append(_with_silence(replace(row, sweep=sweep), now))
        return rows, list(sweep_rows.values())

    def _up_to_date(self, folder: Path) -> tuple[Stamp, RunRow]:
        """The row of a run. Its files are read again only when their time or size has changed."""
        stamp = tuple(file_stamp(folder / name) for name in RUN_FILES)
        known = self._runs.get(folder)
        return known if known is not None and known[0] == stamp else (stamp, _read_row(folder, self.name(folder)))


def _read_sweep(folder: Path, name: str) -> SweepRow:
    try:
        runs = (read_json(folder / SWEEP_FILE) or {})["runs"]
        counts = Counter(str(run["status"]) for run in runs.values())
    except (LookupError, TypeError, AttributeError):
        return SweepRow(name, problem=f"The {SWEEP_FILE} of {name} is damaged or not of a sweep.")
    return SweepRow(name, ", ".join(f"{many} {status}" for status, many in counts.items()))


def _read_row(folder: Path, name: str) -> RunRow:
    config, changed = read_config(folder), [file_stamp(folder / file) for file in RUN_FILES]
    latest = max((stamp[0] for stamp in changed if stamp), default=0.0)
    if config is None:
        return RunRow(name, folder, UNREADABLE, f"Its {CONFIG} is damaged, or no run wrote it.", written=latest)
    report: Mapping[str, Any] = {}
    with suppress(OSError, ValueError, RecursionError):
        report = last_report(folder / METRICS) or {}
    summary = read_json(folder / SUMMARY) or {}
    status, why = summary.get("status"), summary.get("why")
    reported, summed = flat_numbers(report), flat_numbers(summary)
    made, named, notes = file_stamp(folder / CONFIG), MADE_AT.search(folder.name), folder / NOTES
    started = float(named[1]) if named else made[0] if made else 0.0
    options, compared, noted = options_of(config), None, ""
    with suppress(Exception):  # options of another version may be anything; the run is compared with no other then
        compared = configuration(options, weights_from=weights_of(config))
    with suppress(OSError):
        if not notes.is_symlink():
            noted = notes.read_text(encoding="utf-8", errors="replace")[:LONGEST_NOTES]
    # The time in the files is right in a copy, too; before the first report there is none.
    written = max(figures.get("time", 0.0) for figures in (reported, summed)) or latest
    return RunRow(
        name,
        folder,
        status if status in (FINISHED, STOPPED, FAILED) else AT_WORK,
        why if isinstance(why, str) else "",
        options=options,
        figures={**reported, **summed, **_derived({**reported, **summed}, reported.get(SPEED, 0.0), options)},
        notes=noted,
        started=started,
        written=written,
        compared=compared,
    )


def _derived(figures: Mapping[str, float], speed: float, options: Mapping[str, Any]) -> dict[str, float]:
    """How much is done, and speeds: the present one, and the mean since the first run of the lineage began."""
    steps, seconds, most = figures.get("agent_steps"), figures.get("seconds"), options.get("environment_max_steps")
    derived = {SPEED: speed}
    if steps and seconds:
        derived["mean_speed"] = steps / seconds
    if steps is not None and most:
        derived["done"] = min(1.0, steps / most)
        if speed:
            derived["seconds_left"] = max(0.0, most - steps) / speed
    return derived


def _with_silence(row: RunRow, now: float) -> RunRow:
    """A run that says that it is at work, but has not written anything for long, was killed."""
    if row.state != AT_WORK:
        return row
    speed, period = row.figures.get(SPEED), row.options.get("report_period", 0)
    report_seconds = period / speed if speed else 0.0
    checkpoint_seconds = 60 * (row.options.get("save_model_minutes") or 0)
    if now - row.written <= max(SILENT_REPORTS * report_seconds, checkpoint_seconds + SILENT_SECONDS):
        return row
    why = "It has not written anything for a while: it was killed, or its machine stopped."
    return replace(row, state=STOPPED, why=why)
