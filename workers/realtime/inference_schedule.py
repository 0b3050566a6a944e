"""When inference processes start, and when their actions take effect."""

import heapq
import math
from typing import NamedTuple

from realtime.staggering import Staggering

EFFECT, FRAME, START = range(3)  # the order of things that happen at the same time; frames are not in the schedule
LATEST_START = 1.0  # seconds after its time in the schedule; what is more is no part of an inference


class Event(NamedTuple):
    """Something that a process is to do: an effect, or the start of an inference."""

    time: float
    kind: int
    order: int  # of two events of the same time and kind, the one that was planned first comes first
    process: int


class InferenceSchedule:
    """Follows a staggering rule for the processes of one worker.

    A process is absent until `joined`. Then it waits for its start, runs until `finished`, waits for its effect, waits
    for its next start, and so on. Here is no clock: the caller passes the time, and takes each event when it is due.
    """

    def __init__(self, rule: Staggering) -> None:
        self._rule = rule
        self._events: list[Event] = []  # a heap
        self._started: dict[int, float] = {}  # of the processes that run
        self._planned = 0

    @property
    def next_due(self) -> tuple[float, int]:
        """The time and the kind of the next event; the time is infinite if there is none."""
        return self._events[0][:2] if self._events else (math.inf, START)

    def take(self, now: float) -> Event:
        """The next event. The process starts then, or its action takes effect.

        A start that is a little late counts from its time in the schedule, see `Staggering`. One that is very late,
        because the worker was stopped or its games catch up, counts from now.
        """
        event = heapq.heappop(self._events)
        if event.kind == START:
            self._started[event.process] = event.time if now - event.time <= LATEST_START else now
        else:
            self._plan(self._rule.next_start(event.process, event.time), START, event.process)
        return event

    def joined(self, process: int, now: float) -> None:
        """A process is ready for its first inference."""
        self._plan(self._rule.next_start(process, now), START, process)

    def finished(self, process: int, now: float) -> float:
        """An inference has ended. Returns the time that it took from its start in the schedule."""
        started = self._started.pop(process)
        self._plan(self._rule.finished(process, started, now), EFFECT, process)
        return now - started

    def stopped(self, seconds: float, now: float) -> None:
        """The worker was stopped for so long. That is no part of the inferences that were running."""
        self._started = {process: min(now, started + seconds) for process, started in self._started.items()}

    def lost(self, process: int) -> None:
        """A process is gone, and with it the decision that it was making, or that had not taken effect yet."""
        self._started.pop(process, None)
        self._events = [event for event in self._events if event.process != process]
        heapq.heapify(self._events)

    def _plan(self, time: float, kind: int, process: int) -> None:
        self._planned += 1
        heapq.heappush(self._events, Event(time, kind, self._planned, process))
