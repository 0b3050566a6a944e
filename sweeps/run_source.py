"""Where a sweep's runs come from: a list that is known from the start, or a search that chooses them one by one."""

from collections.abc import Sequence
from typing import Protocol

from sweeps.plan import Sweep, SweepRun
from sweeps.state import SweepState


class RunSource(Protocol):
    """Gives the runner its runs, and learns how they go and end."""

    @property
    def runs(self) -> Sequence[SweepRun]:
        """All runs that are known so far."""

    @property
    def runs_of_table(self) -> Sequence[SweepRun]:
        """The runs that are known so far, and those of other seeds that the folder holds from an earlier command."""

    @property
    def total(self) -> int:
        """How many runs there will be."""

    @property
    def has_more(self) -> bool:
        """Whether `next_run` may have a run."""

    def next_run(self) -> SweepRun | None:
        """A new run. None if there is no further one."""

    def is_hopeless(self, run: SweepRun) -> bool:
        """Whether a running run should be stopped, because others were better at the same number of steps."""

    def ended(self, run: SweepRun, status: str) -> None:
        """Learn that a run is `done`, `pruned` or `failed`. Called once or more for each such run."""

    def differing_flags(self, run: SweepRun) -> str:
        """The flags in which the run differs from others, for the table."""


class ListedRuns:
    """The runs of a sweep that are known from the start."""

    def __init__(self, sweep: Sweep, state: SweepState) -> None:
        self._sweep = sweep
        earlier = state.other_seeds(sweep.runs)
        self._table = Sweep(sweep.name, [*earlier, *sweep.runs])
        state.refuse_others([run.name for run in self._table.runs])
        for run in sweep.runs:
            state.add(run)

    @property
    def runs(self) -> Sequence[SweepRun]:
        return self._sweep.runs

    @property
    def runs_of_table(self) -> Sequence[SweepRun]:
        return self._table.runs

    @property
    def total(self) -> int:
        return len(self._sweep.runs)

    @property
    def has_more(self) -> bool:
        return False

    def next_run(self) -> SweepRun | None:
        return None

    def is_hopeless(self, run: SweepRun) -> bool:
        return False

    def ended(self, run: SweepRun, status: str) -> None:
        pass

    def differing_flags(self, run: SweepRun) -> str:
        return self._table.differing_flags(run)
