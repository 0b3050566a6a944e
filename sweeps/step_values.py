"""The mean returns of a run at equally spaced numbers of steps, at which the runs of a search are compared."""

from pathlib import Path

from run_files.growing_file import NewLines
from run_files.metrics import METRICS, parse_report
from sweeps.files import DamagedFiles


class StepValues:
    """Reads the new lines of a job's `metrics.jsonl` files.

    Reports of different runs are at different steps. The value at each multiple of `interval` is the mean return of
    the first report from there on. Damaged lines are left out.
    """

    def __init__(self, interval: int, reached: int, damaged: DamagedFiles) -> None:
        self._interval = interval
        self._reached = reached  # the last multiple that has a value
        self._damaged = damaged
        self._files: dict[Path, NewLines] = {}

    def read_new(self, job_folder: Path) -> dict[int, float]:
        """The values by their steps that came since the last call."""
        values: dict[int, float] = {}
        for path in sorted(job_folder.glob(f"*/{METRICS}"), key=lambda path: (path.stat().st_mtime_ns, path)):
            for line in self._files.setdefault(path, NewLines(path)).read():
                try:
                    report = parse_report(line, f"a line of {path}")
                except ValueError as error:
                    self._damaged.add(path, error)
                    continue
                steps, value = report.get("agent_steps"), report.get("return_mean")
                if isinstance(steps, int | float) and isinstance(value, int | float):
                    while self._reached + self._interval <= steps:
                        self._reached += self._interval
                        values[self._reached] = float(value)
        return values
