"""Decides when a lost process is replaced, and when too many were lost to go on."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from processes.failures import WorkersFailedError

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0  # seconds between two starts of a process that keeps failing
DEATHS_WINDOW = 600.0  # seconds over which deaths count against the budget
FAILURES_IN_A_ROW = 5  # of one process, without success between them, that end the run
REFUSALS_IN_A_ROW, REFUSED_SECONDS = 60, 1.0  # refused starts that end the run, and the time between two tries


@dataclass
class History:
    """What has happened to the processes of one member of a pool."""

    starts: int = 0  # processes so far
    failures: int = 0  # ends in a row without success
    refusals: int = 0  # starts in a row that the system refused
    start_at: float = math.inf  # earliest time of the next start


class Restarts:
    """Counts the replacements in a pool, and the recent deaths against its budget.

    Without a budget, those that were killed from outside count as failures too.
    """

    def __init__(self, budget: int | None, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._deaths: deque[float] = deque()  # times within the window
        self.count = 0

    def plan(self, name: str, history: History, how: str, from_outside: bool) -> None:
        """Plan a replacement, later with each failure in a row.

        `how` says how the process ended; `from_outside`: killed by a user or for lack of memory, which is no failure of
        its own. WorkersFailedError after too many deaths or failures.
        """
        history.failures += 1
        now = self._clock()
        self._deaths.append(now)
        while self._deaths[0] < now - DEATHS_WINDOW:
            self._deaths.popleft()
        if self._budget is not None and len(self._deaths) > self._budget:
            raise WorkersFailedError(
                f"{name} {how}\nWithin ten minutes, processes of the run ended {len(self._deaths)} times, more often "
                f"than --worker_restart_budget={self._budget} allows: the run is saved and ends."
            )
        if history.failures >= FAILURES_IN_A_ROW and not (from_outside and self._budget is not None):
            ends = "" if self._budget is None else ": the run is saved and ends"
            raise WorkersFailedError(
                f"{name} {how}\nIt ended {history.failures} times in a row before it delivered anything{ends}."
            )
        self.count += 1
        failures = history.failures
        history.start_at = now
        if failures > 1:
            history.start_at += min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** (failures - 2))

    def postpone(self, name: str, history: History, why: str) -> bool:
        """Plan another try after the system refused to start a process; return whether it is the first refusal.

        WorkersFailedError after too many refusals in a row.
        """
        history.refusals += 1
        if history.refusals >= REFUSALS_IN_A_ROW:
            raise WorkersFailedError(
                f"{name} could not be started again ({why}), {history.refusals} times in a row: "
                "the run is saved and ends."
            )
        history.start_at = self._clock() + REFUSED_SECONDS
        return history.refusals == 1
