"""`sweep.json`: the flags and the status of each run of a sweep."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from option_flags import Config
from options.rules import UsageError
from run_files.run_folder import SWEEP_FILE, write_json

# The statuses of a run.
WAITING, RUNNING, DONE, STOPPED, FAILED = "waiting", "running", "done", "stopped", "failed"
PRUNED = "pruned"  # stopped by a search, because others were better
ENDED = {DONE, PRUNED}

# Flags that may change when a sweep is continued: they do not change what was learned so far.
CHANGEABLE = {"environment_max_steps", "stop_at_return", "stop_at", "console", "console_period"}


@dataclass(frozen=True)
class SweepRun:
    """One run: its name, the flags that it is started with, and their configuration."""

    name: str
    flags: Mapping[str, Any]
    config: Config


class SweepState:
    """The flags, the status and the end of each run, and what a search searches. Progress is in the runs' own files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / SWEEP_FILE
        self.runs: dict[str, dict[str, Any]] = {}
        self.search: dict[str, Any] | None = None
        if self._path.exists():
            self._read()

    def _read(self) -> None:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            self.runs, self.search = dict(content["runs"]), content.get("search")
            for entry in self.runs.values():
                if not (isinstance(entry["flags"], dict) and isinstance(entry["status"], str)):
                    raise TypeError
                if entry["status"] == RUNNING:  # its sweep was killed, and it with it
                    entry["status"] = STOPPED
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise UsageError(
                f"--sweep_dir={self.folder} holds a {SWEEP_FILE} that is damaged or not of a sweep; another folder "
                "would be right."
            ) from None

    def begin(self, search: Mapping[str, Any] | None) -> None:
        """Raise a UsageError if what the folder holds is not of this search; None: of no search."""
        wanted, before = json.loads(json.dumps(search or {})), self.search or {}
        changed = [key for key in {**wanted, **before} if wanted.get(key) != before.get(key)]
        for name, was in (before.get("ends", {}) if wanted else {}).items():
            if wanted["ends"][name] != was:  # named first: the defaults of the pruner follow from it
                how = f"without --{name}" if was is None else f"with --{name}={was}"
                raise UsageError(f"{self.folder} holds a search {how}; that, or another --sweep_dir, would be right.")
        if self.runs and bool(wanted) != bool(before):
            kind = "a search" if before else "a sweep that is no search"
            raise UsageError(f"--sweep_dir={self.folder} holds {kind}; another --sweep_dir would be right.")
        if changed == ["sampler"] and before["sampler"] == {**wanted["sampler"], "seed": before["sampler"].get("seed")}:
            changed = ["--seed"]
        if self.runs and changed:
            raise UsageError(
                f"--sweep_dir={self.folder} holds a sweep with another {' and '.join(changed)}; another --sweep_dir, "
                "or what was there before, would be right."
            )
        self.search = wanted or None

    def others(self, runs: Sequence[SweepRun]) -> list[SweepRun]:
        """The runs of the folder besides these."""
        names, found = {run.name for run in runs}, []
        for name, entry in self.runs.items():
            if name not in names:
                with suppress(UsageError):  # of flags that this version does not know
                    found.append(SweepRun(name, entry["flags"], Config.from_flags(entry["flags"])))
        return found

    def add(self, run: SweepRun) -> None:
        """Add a new run, or check that a known one has the same flags as before."""
        entry = self.runs.setdefault(run.name, {"flags": run.flags, "status": WAITING})
        before = entry["flags"]
        for name in {**before, **run.flags}:
            if name not in CHANGEABLE and before.get(name) != run.flags.get(name):
                raise UsageError(
                    f"--sweep_dir={self.folder} holds the run {run.name} with another --{name}; another --sweep_dir, "
                    "or the same flags as before, would be right."
                )
        entry["flags"] = run.flags

    def set(self, name: str, status: str, exit_code: int | None = None, lines: Sequence[str] = ()) -> None:
        """Set and save the status of a run; `lines` are the last ones of its log."""
        self.runs[name] |= {"status": status, "exit_code": exit_code, "last_lines": list(lines)}
        with suppress(OSError):  # a full disk; the progress is in the files of the runs
            self.write()

    def write(self) -> None:
        search = {} if self.search is None else {"search": self.search}
        write_json(self._path, {**search, "runs": self.runs})
