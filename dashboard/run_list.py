"""The list of all runs and sweeps: how far each is, read from the ends of its files."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.results_folder import ResultsFolder, file_stamp
from reports.number_format import NOTHING_YET, duration
from reports.published_scores import game_name
from run_files.job_runs import SWEEP_FILE
from run_files.metrics import EPISODES, METRICS, last_report
from run_files.run_folder import CONFIG, SUMMARY, read_config, read_json, read_summary
from run_files.run_history import options_of, parent_of, weights_of

AT_WORK, FINISHED, STOPPED, FAILED, UNREADABLE = "at work", "finished", "stopped", "failed", "unreadable"
STATES = (AT_WORK, FINISHED, STOPPED, FAILED, UNREADABLE)
SILENT_SECONDS = 300.0  # a run that wrote nothing for so long, or for several reports, is not at work
SILENT_REPORTS = 5
SCAN_SECONDS = 2.0  # shortest time between two looks at the folder, whatever the number of open pages
SCAN_SHARE = 0.005  # at most this share of a core is used for looking: thousands of runs are looked at less often

Stamp = tuple[tuple[float, int] | None, ...]  # modification time and size of each file


@dataclass(frozen=True)
class RunRow:
    """What the list shows of one run. Numbers that are not known are None."""

    name: str
    folder: Path
    state: str
    why: str = ""  # the reason of the state, as a sentence
    sweep: str = ""  # the name of the sweep that it belongs to; "." if this is the results folder itself
    env: str = ""
    options: Mapping[str, Any] | None = None
    agent_steps: float | None = None
    max_steps: float | None = None
    return_mean: float | None = None
    return_max: float | None = None
    steps_per_second: float | None = None  # at the newest report
    seconds: float | None = None  # training time
    written: float = 0.0  # unix time at which the run last wrote something
    parent: Path | None = None  # the folder of the run that it was resumed from
    ancestors: frozenset[Path] = frozenset()  # the parent and its ancestors
    weights_from: str | None = None  # the checkpoint whose weights the first run of its lineage started from

    @property
    def game(self) -> str:
        return game_name(self.env)

    @property
    def progress(self) -> str:
        """The fraction of its steps that the run has made."""
        if self.agent_steps is None or not self.max_steps:
            return NOTHING_YET
        return f"{min(1.0, self.agent_steps / self.max_steps):.0%}"

    @property
    def time_left(self) -> str:
        if not self.steps_per_second or self.agent_steps is None or self.max_steps is None:
            return NOTHING_YET
        return duration(max(0.0, self.max_steps - self.agent_steps) / self.steps_per_second)


@dataclass(frozen=True)
class SweepRow:
    """One sweep: how many of its runs have which status, by sweep.json."""

    name: str
    statuses: Mapping[str, str]  # of each run, by its name
    flags: Mapping[str, Mapping[str, Any]]
    problem: str = ""

    @property
    def counts(self) -> str:
        """`3 done, 1 running, 2 waiting`; empty without runs."""
        return ", ".join(f"{many} {status}" for status, many in Counter(self.statuses.values()).items())


class _Known(NamedTuple):
    stamp: Stamp
    row: RunRow


class RunList:
    """Rows of all runs. Files are read again only when their time or size has changed. Safe to use in threads."""

    def __init__(self, results: ResultsFolder, clock: Callable[[], float] = time.time) -> None:
        self._results = results
        self._clock = clock
        self._looking = threading.Lock()  # held by the thread that reads the files
        self._known: dict[Path, _Known] = {}
        self._sweeps: dict[Path, tuple[Stamp, SweepRow]] = {}
        self._next_scan = -math.inf
        self._found: tuple[list[RunRow], list[SweepRow]] | None = None

    def read(self) -> tuple[list[RunRow], list[SweepRow]]:
        """All runs and all sweeps as they were when a thread last looked: some seconds ago, if the disk is not slow.

        Only one thread looks at a time. The others get what it found before; only the first time, they wait for it.
        """
        found = self._found
        if time.monotonic() < self._next_scan or not self._looking.acquire(blocking=found is None):
            return found or ([], [])
        try:
            now = time.monotonic()
            if now >= self._next_scan:  # no other thread has looked while this one waited
                before = time.thread_time()
                self._found = self._scan(self._clock())
                self._next_scan = now + max(SCAN_SECONDS, (time.thread_time() - before) / SCAN_SHARE)
            return self._found or ([], [])
        finally:
            self._looking.release()

    def row(self, name: str) -> RunRow | None:
        return next((row for row in self.read()[0] if row.name == name), None)

    def _scan(self, now: float) -> tuple[list[RunRow], list[SweepRow]]:
        runs, sweeps = self._results.find()
        self._known = {folder: self._read(folder) for folder in runs}
        self._sweeps = {folder: self._read_sweep(folder) for folder in sweeps}
        # What the names of a sweep's runs begin with: that of the sweep, unless it is the results folder itself.
        beginnings = {"" if name == "." else f"{name}/": name for name in map(self._results.name, sweeps)}
        rows = []
        for folder, known in self._known.items():
            row = _with_silence(self._with_lineage(folder, known.row), now)
            own = [beginning for beginning in beginnings if row.name.startswith(beginning)]
            sweep = beginnings[max(own, key=len)] if own else ""
            rows.append(replace(row, sweep=sweep))
        return rows, [row for _, row in self._sweeps.values()]

    def _read(self, folder: Path) -> _Known:
        files = tuple(file_stamp(folder / name) for name in (CONFIG, SUMMARY, METRICS, EPISODES))
        known = self._known.get(folder)
        if known is not None and known.stamp == files:
            return known
        row = replace(_read_row(folder), name=self._results.name(folder))
        if not row.written:  # no report yet
            row = replace(row, written=max((stamp[0] for stamp in files if stamp), default=0.0))
        return _Known(files, row)

    def _with_lineage(self, folder: Path, row: RunRow) -> RunRow:
        """The row with its ancestors and where their first weights came from, as far as the list has them."""
        seen, first = {folder}, row
        while first.parent is not None and first.parent not in seen:
            known = self._known.get(first.parent)
            if known is None or known.row.options is None:
                break
            seen.add(first.parent)
            first = known.row
        return replace(row, ancestors=frozenset(seen - {folder}), weights_from=first.weights_from)

    def _read_sweep(self, folder: Path) -> tuple[Stamp, SweepRow]:
        stamp = (file_stamp(folder / SWEEP_FILE),)
        known = self._sweeps.get(folder)
        if known is not None and known[0] == stamp:
            return known
        name = self._results.name(folder)
        try:
            runs = (read_json(folder / SWEEP_FILE) or {})["runs"]
            statuses = {str(job): str(entry["status"]) for job, entry in runs.items()}
            flags = {str(job): dict(entry["flags"]) for job, entry in runs.items()}
        except (ValueError, LookupError, TypeError, AttributeError):
            return stamp, SweepRow(name, {}, {}, f"The {SWEEP_FILE} of {name} is damaged or not of a sweep.")
        return stamp, SweepRow(name, statuses, flags)


def _parent(folder: Path, config: Mapping[str, Any]) -> Path | None:
    with suppress(KeyError, TypeError, ValueError, OSError, RuntimeError):  # not written by a run, or a loop of links
        parent, _ = parent_of(folder, config, math.inf)
        return None if parent is None else parent.resolve()
    return None


def _read_row(folder: Path) -> RunRow:
    config = read_config(folder)
    if config is None:
        return RunRow("", folder, UNREADABLE, "Its config.json is cut off, damaged, or was not written by a run.")
    options = options_of(config)
    row = RunRow(
        "",
        folder,
        STOPPED,
        env=str(options.get("env", "")),
        options=options,
        parent=_parent(folder, config),
        weights_from=weights_of(config),
    )
    summary, report = read_summary(folder), _last_report(folder)

    def figure(name: str) -> float | None:
        """From the summary, which is newer, or else from the newest report."""
        found = _number(summary.get(name))
        return _number(report.get(name)) if found is None else found

    steps, limit = figure("agent_steps"), _number(options.get("environment_max_steps"))
    status, why = summary.get("status"), summary.get("why")
    if status == "running":
        row = replace(row, state=AT_WORK)
    elif status in (FINISHED, STOPPED, FAILED):
        row = replace(row, state=str(status), why=why if isinstance(why, str) else "")
    elif steps is not None and limit is not None and steps >= limit:
        row = replace(row, state=FINISHED, why="It has reached its --environment_max_steps.")
    else:  # before its first report, or of a version without summary.json
        row = replace(row, state=AT_WORK)
    return replace(
        row,
        agent_steps=steps,
        max_steps=limit,
        return_mean=figure("return_mean"),
        return_max=figure("return_max"),
        steps_per_second=_number(report.get("steps_per_second")),
        seconds=figure("seconds"),
        written=max(_number(report.get("time")) or 0.0, _number(summary.get("time")) or 0.0),
    )


def _with_silence(row: RunRow, now: float) -> RunRow:
    """A run that says that it is at work, but has not written anything for long, was killed."""
    if row.state != AT_WORK:
        return row
    period = _number((row.options or {}).get("report_period")) or 0.0
    expected = period / row.steps_per_second if row.steps_per_second else 0.0
    to_checkpoint = 60 * (_number((row.options or {}).get("save_model_minutes")) or 0.0)
    if now - row.written <= max(SILENT_SECONDS, SILENT_REPORTS * expected, to_checkpoint + SILENT_SECONDS):
        return row
    why = "It has not written anything for a while: it was killed, or its machine stopped."
    return replace(row, state=STOPPED, why=why)


def _last_report(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        return last_report(folder / METRICS) or {}
    return {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    with suppress(OverflowError):
        return float(value) if math.isfinite(value) else None
    return None
