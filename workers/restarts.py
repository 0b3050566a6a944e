"""When a process that was lost is replaced, and when a run has lost too many."""

import signal
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from workers.failures import WorkersFailedError

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0  # seconds between two starts of a worker that keeps failing
DEATHS_WINDOW = 600.0  # seconds over which deaths are counted against the budget
FAILURES_IN_A_ROW = 5  # ends of its own making, before it delivered anything, that show a worker cannot work
REFUSALS_IN_A_ROW, REFUSED_SECONDS = 60, 1.0  # starts that the system has no room for, and the time between two
KILLS_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)  # by a user or for lack of memory: they say little of the worker


@dataclass(eq=False)
class Place:
    """A worker's place, or the server's: the process that holds it now, and what the learner knows of it."""

    index: int
    name: str
    is_server: bool = False
    process: BaseProcess | None = None
    connection: Connection | None = None
    slots_to_fill: set[int] = field(default_factory=set)
    incarnation: int = 0
    failures: int = 0  # ends in a row without a delivered unroll
    refusals: int = 0  # starts in a row that the system had no room for
    start_at: float = 0.0
    last_sign: float = 0.0


class Restarts:
    """Counts the replacements of a run, and the deaths of not long ago against its budget."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._deaths: deque[float] = deque()  # when processes died, not longer ago than the window
        self.count = 0

    def plan(self, place: Place, exit_code: int, how: str) -> str:
        """Plan a replacement, at once or later the more often the place failed in a row; return how its process ended.

        `how` is empty where the process ended without the learner's doing. Raises WorkersFailedError where it is
        enough.
        """
        from_outside = -exit_code in KILLS_FROM_OUTSIDE and not how
        if not how:
            how = (
                f"was killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"ended with code {exit_code}"
            )
        place.incarnation += 1
        place.failures += 1
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - DEATHS_WINDOW:
            self._deaths.popleft()
        if len(self._deaths) > self._budget or (place.failures >= FAILURES_IN_A_ROW and not from_outside):
            raise WorkersFailedError(
                f"{place.name} {how.rstrip()}\nWithin ten minutes, workers ended {len(self._deaths)} times, "
                f"this one {place.failures} times in a row before it delivered anything: the run is saved and ends."
            )
        self.count += 1
        back_off = min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** (place.failures - 2)) if place.failures > 1 else 0.0
        place.start_at = now + back_off
        return how

    def postpone(self, place: Place, why: str) -> bool:
        """Plan another try, where the system had no room for a replacement; whether it is the first.

        Raises WorkersFailedError where it has none for long.
        """
        place.refusals += 1
        if place.refusals >= REFUSALS_IN_A_ROW:
            raise WorkersFailedError(
                f"{place.name} could not be started again ({why}), {place.refusals} times in a row: the run is saved "
                "and ends."
            )
        place.start_at = time.monotonic() + REFUSED_SECONDS
        return place.refusals == 1
