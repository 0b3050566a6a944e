"""`sweep.json`: the flags and the status of each run of a sweep."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from option_flags import Config
from options.rules import UsageError
from run_files.job_runs import SWEEP_FILE
from run_files.run_folder import write_json
from sweeps.plan import SweepRun

# The statuses of a run.
WAITING, RUNNING, DONE, STOPPED, FAILED = "waiting", "running", "done", "stopped", "failed"
PRUNED = "pruned"  # stopped by a search, because others were better
REFUSED = "refused"  # a trial whose values main.py refuses together; it is never started
ENDED = {DONE, PRUNED}

# Flags that may change when a sweep is continued: they do not change what was learned so far.
CHANGEABLE = {"environment_max_steps", "stop_at_return", "console", "console_period"}


class SweepState:
    """The flags, the status and the end of each run, as in `sweep.json`. The progress of a run is in its own files.

    A sweep that searches keeps there too what it searches, and the figures by which it judged each run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise self.damaged() from None

    def damaged(self) -> UsageError:
        return UsageError(
            f"--sweep_dir={self._folder} holds a {SWEEP_FILE} that is damaged or not of a sweep; another folder would "
            "be right."
        )

    def other_seeds(self, runs: Sequence[SweepRun]) -> list[SweepRun]:
        """The runs in the folder that are not among these, but differ from one of them in nothing but the seed."""
        wanted = [_without_seed(run.name, _as_saved(run.flags)) for run in runs]
        names = {run.name for run in runs}
        found = []
        for name, entry in self.runs.items():
            if name not in names and _without_seed(name, entry["flags"]) in wanted:
                with suppress(UsageError):  # of flags that this version does not know
                    found.append(SweepRun(name, entry["flags"], Config.from_flags(entry["flags"])))
        return found

    def refuse_others(self, names: Collection[str]) -> None:
        """Raise a UsageError if the folder has runs, and none of these."""
        if self.runs and not self.runs.keys() & set(names):
            raise UsageError(
                f"--sweep_dir={self._folder} holds other runs ({next(iter(self.runs))}, ...) and none of this sweep; "
                "another --sweep_dir, or another name for this sweep, would be right."
            )

    def add(self, run: SweepRun) -> None:
        """Add a new run, or check that a known one has the same flags as before."""
        flags = _as_saved(run.flags)
        entry = self.runs.setdefault(run.name, {"flags": flags, "status": WAITING})
        before = entry["flags"]
        for name in {**before, **flags}:
            if name not in CHANGEABLE and before.get(name) != flags.get(name):
                raise UsageError(
                    f"--sweep_dir={self._folder} holds the run {run.name} with another --{name}; another --sweep_dir, "
                    "or the same flags as before, would be right."
                )
        entry["flags"] = flags

    def set(self, name: str, status: str, exit_code: int | None = None, lines: Sequence[str] = ()) -> None:
        """Set and save the status of a run; `lines` are the last ones of its log."""
        self.runs[name] |= {"status": status, "exit_code": exit_code, "last_lines": list(lines)}
        with suppress(OSError):  # a full disk; the progress is in the files of the runs
            self.write()

    def have_ended(self, names: Iterable[str]) -> bool:
        return all(self.runs[name]["status"] in ENDED for name in names)

    def write(self) -> None:
        search = {} if self.search is None else {"search": self.search}
        write_json(self._path, {**search, "runs": self.runs})


def _as_saved(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags as `sweep.json` has them."""
    saved: dict[str, Any] = json.loads(json.dumps(flags))
    return saved


def _without_seed(name: str, flags: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a run without its seed, and the flags that make what is learned, but for chance."""
    same = {name: value for name, value in flags.items() if name not in CHANGEABLE | {"seed"}}
    return name.removesuffix(f"_seed{flags.get('seed')}"), same
