"""Decides when a lost process is replaced, and when a run has lost too many processes to go on."""

import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from workers.failures import WorkersFailedError

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0  # seconds between two starts of a worker that keeps failing
DEATHS_WINDOW = 600.0  # seconds over which deaths count against the budget
FAILURES_IN_A_ROW = 5  # failures of one process, without a delivered round between them, that end the run
REFUSALS_IN_A_ROW, REFUSED_SECONDS = 60, 1.0  # refused starts that end the run, and the time between two tries
KILLS_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)  # by a user or for lack of memory: not the worker's own failure


@dataclass(eq=False)
class WorkerHandle:
    """The state of one worker process, or of the inference server."""

    index: int  # -1 for the inference server
    name: str
    process: BaseProcess | None = None
    connection: Connection | None = None
    restart_index: int = 0  # processes before this one
    unanswered: int = 0  # requests that the process has not answered yet
    silent_since: float = 0.0  # time of the last message, or of the first unanswered request
    failures: int = 0  # ends in a row without a delivered round
    refusals: int = 0  # starts in a row that the system refused
    start_at: float = 0.0  # earliest time of the next start
    interrupted_at: float | None = None  # when a silent process was asked where it hangs


class Restarts:
    """Counts the replacements of a run, and the recent deaths against its budget."""

    def __init__(self, budget: int, clock: Callable[[], float]) -> None:
        self._budget = budget
        self._clock = clock
        self._deaths: deque[float] = deque()  # times within the window
        self.count = 0

    def plan(self, handle: WorkerHandle, exit_code: int, how: str, reason: str = "") -> str:
        """Plan a replacement, later with each failure in a row; return how the process ended.

        `how` is empty if the process ended by itself, and `reason` is what it wrote about that. Raises
        WorkersFailedError after too many deaths or failures.
        """
        from_outside = -exit_code in KILLS_FROM_OUTSIDE and not how
        if not how:
            how = f"was killed by {_name(-exit_code)}" if exit_code < 0 else f"ended with code {exit_code}"
            how += f" before it was ready ({reason})" if reason else ""
        handle.restart_index += 1
        handle.failures += 1
        now = self._clock()
        self._deaths.append(now)
        while self._deaths[0] < now - DEATHS_WINDOW:
            self._deaths.popleft()
        if len(self._deaths) > self._budget:
            raise WorkersFailedError(
                f"{handle.name} {how.rstrip()}\nWithin ten minutes, processes of the run ended {len(self._deaths)} "
                f"times, more often than --worker_restart_budget={self._budget} allows: the run is saved and ends."
            )
        if handle.failures >= FAILURES_IN_A_ROW and not from_outside:
            raise WorkersFailedError(
                f"{handle.name} {how.rstrip()}\nIt ended {handle.failures} times in a row before it delivered "
                "anything: the run is saved and ends."
            )
        self.count += 1
        back_off = min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** (handle.failures - 2)) if handle.failures > 1 else 0.0
        handle.start_at = now + back_off
        return how

    def postpone(self, handle: WorkerHandle, why: str) -> bool:
        """Plan another try after the system refused to start a replacement; return whether it is the first refusal.

        Raises WorkersFailedError after too many refusals in a row.
        """
        handle.refusals += 1
        if handle.refusals >= REFUSALS_IN_A_ROW:
            raise WorkersFailedError(
                f"{handle.name} could not be started again ({why}), {handle.refusals} times in a row: "
                "the run is saved and ends."
            )
        handle.start_at = self._clock() + REFUSED_SECONDS
        return handle.refusals == 1


def _name(number: int) -> str:
    """The name of a signal; most of the real-time signals have none."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")
