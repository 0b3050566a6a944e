"""Where the runs of a sweep are started: on this machine, or on the nodes of a cluster."""

import itertools
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from option_flags import OPTIONS
from options.rules import UsageError
from sweeps.job import Job
from sweeps.plan import Sweep
from sweeps.search_plan import SearchPlan


class RunJob(Protocol):
    """One run of a sweep, in its folder."""

    folder: Path
    log: Path

    def start(self, flags: Mapping[str, Any]) -> bool:
        """Begin the run, or continue it. False if it is running already; it is then only watched."""

    @property
    def is_running(self) -> bool: ...

    @property
    def exit_code(self) -> int | None:
        """None for a process that still runs, was not started here, or was lost."""

    @property
    def why_lost(self) -> str:
        """What happened to a run that has ended without an exit code, for the console."""

    @property
    def where(self) -> str:
        """Words for the console, such as " on node a"; empty on this machine."""

    def signal(self, number: signal.Signals) -> None: ...

    def new_log_lines(self) -> list[str]: ...


class Places(Protocol):
    """Has room for a number of runs at once."""

    def has_room(self, running: int) -> bool:
        """Whether another run can start while so many are running."""

    def make_job(self, folder: Path) -> RunJob:
        """A job for the room that `has_room` has found."""

    @property
    def words(self) -> str:
        """How many runs there are at once, for the console."""

    def close(self) -> None: ...


class ThisMachine:
    """Runs as many jobs at once as it was told, each as a child process."""

    def __init__(self, jobs: int, program: Path) -> None:
        self._jobs = jobs
        self._program = program

    def has_room(self, running: int) -> bool:
        return running < self._jobs

    def make_job(self, folder: Path) -> RunJob:
        return Job(folder, self._program)

    @property
    def words(self) -> str:
        return str(self._jobs)

    def close(self) -> None:
        pass


def cpus_of_a_run(plan: Sweep | SearchPlan) -> int:
    """The CPUs of the run that uses the most: one for each worker, and for each thread of each of its learners.

    Without these numbers, a run would take all cores of its node, whatever was reserved for it.
    """
    runs: Iterable[tuple[int, ...]]
    if isinstance(plan, SearchPlan):
        # No Config is made: other flags may be valid only with one that is searched.
        values = [
            plan.ranges[name].ends if name in plan.ranges else [plan.flags.get(name, OPTIONS[name].default)]
            for name in ("worker_count", "learner_threads", "learners")
        ]
        runs = list(itertools.product(*values))
    else:
        configs = [run.config for run in plan.runs]
        runs = [(one.workers.worker_count, one.run.learner_threads, one.learners.learners) for one in configs]
    if not all(workers and threads and learners for workers, threads, learners in runs):
        raise UsageError(
            "--cluster must know the CPUs that each run uses; --worker_count=4 --learner_threads=1 (or others), and "
            "not --learners=0, would be right."
        )
    return max(workers + threads * learners for workers, threads, learners in runs)
