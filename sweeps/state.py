"""`sweep.json`: the flags and the status of each run of a sweep."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from options.rules import UsageError
from run_files.run_folder import write_json
from sweeps.plan import Sweep, SweepRun

STATE_FILE = "sweep.json"
# Flags that may change when a sweep is continued: they do not change what was learned so far.
CHANGEABLE = {"environment_max_steps", "stop_at_return", "console", "console_period"}


class SweepState:
    """The flags, the status and the end of each run, as in `sweep.json`. The progress of a run is in its own files."""

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        self._path = folder / STATE_FILE
        self.runs = self._read(folder) if self._path.exists() else {}
        if self.runs and not self.runs.keys() & {run.name for run in sweep.runs}:
            raise UsageError(
                f"--sweep_dir={folder} holds other runs ({next(iter(self.runs))}, ...) and none of this sweep; another "
                "--sweep_dir, or another name for this sweep, would be right."
            )
        for run in sweep.runs:
            self._add(run, folder)

    def _read(self, folder: Path) -> dict[str, dict[str, Any]]:
        try:
            runs = json.loads(self._path.read_text(encoding="utf-8"))["runs"]
            for entry in runs.values():
                if not (isinstance(entry["flags"], dict) and isinstance(entry["status"], str)):
                    raise TypeError
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise UsageError(
                f"--sweep_dir={folder} holds a {STATE_FILE} that is damaged or not of a sweep; another folder would be "
                "right."
            ) from None
        return dict(runs)

    def _add(self, run: SweepRun, folder: Path) -> None:
        """Add a new run, or check that a known one has the same flags as before."""
        flags = json.loads(json.dumps(run.flags))
        entry = self.runs.setdefault(run.name, {"flags": flags, "status": "waiting"})
        before = entry["flags"]
        for name in {**before, **flags}:
            if name not in CHANGEABLE and before.get(name) != flags.get(name):
                raise UsageError(
                    f"--sweep_dir={folder} holds the run {run.name} with another --{name}; another --sweep_dir, or the "
                    "same flags as before, would be right."
                )
        entry["flags"] = flags

    def set(self, name: str, status: str, exit_code: int | None = None, lines: Sequence[str] = ()) -> None:
        """Set and save the status of a run; `lines` are the last ones of its log."""
        self.runs[name] |= {"status": status, "exit_code": exit_code, "last_lines": list(lines)}
        with suppress(OSError):  # a full disk; the progress is in the files of the runs
            self.write()

    def write(self) -> None:
        write_json(self._path, {"runs": self.runs})
