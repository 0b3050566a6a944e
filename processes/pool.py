"""Several child processes: hears them all, notices those that die or hang, and replaces them.

Nothing is shared between them, and no lock is held, so that a child that is killed at any instruction blocks nobody.
"""

import math
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from processes.child import Child, Work, start_child
from processes.inside import HEARTBEAT_SECONDS
from processes.messages import ChildError, Kind, Message, receive
from processes.printed import is_new, reason

FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 5.0  # seconds between two starts of a process that keeps failing
DEATHS_WINDOW = 600.0  # seconds over which deaths count against the budget
FAILURES_IN_A_ROW = 5  # of one process, without success between them, that end the run
CHECK_SECONDS = 1.0  # between two checks for processes that have ended unheard, or print too much
MISSED_HEARTBEATS = 3  # after so many, a process counts as silent, and those that need it have to wait
KILLS_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)  # by a user or for lack of memory: no failure of its own


class RunFailedError(Exception):
    """Ends the program, with a sentence for the user."""

    exit_code = 1


class WorkersFailedError(RunFailedError):
    """Processes end again and again, or cannot be started. The message names the process and the cause."""


@dataclass(frozen=True)
class Ended:
    """A child has ended, or was ended, and is reaped: nothing of it can use shared memory any more."""

    what: str = "ended"  # "was killed by SIGKILL", "failed", …
    heading: str = ""  # goes between `what` and the details
    details: str = ""  # its traceback, the place where it hangs, or the last lines that it printed
    in_code: bool = False  # its code raised an exception, or hangs in a known place: so would another process
    from_outside: bool = False
    with_other: bool = False  # ended because one that it needs has ended

    def in_words(self) -> str:
        return f"{self.what}{self.heading}\n{self.details}" if self.details else self.what


@dataclass(eq=False)
class Member:
    """A place in a pool, which at most one process has at a time."""

    name: str
    make: Callable[[int], Work]  # from the number of processes before it
    index: int = 0  # members with a lower one are heard first
    owes_at_start: int = 0  # answers that a process owes as soon as it is started
    needs: "Member | None" = None  # runs only together with a process of that one
    child: Child | None = None
    starts: int = 0  # processes so far
    start_at: float = math.inf  # earliest time of the next start
    failures: int = 0  # ends in a row; whoever sees a success sets it to 0
    owes: int = 0  # answers that it has not given yet; the silence limit applies while there are any
    silent_since: float = 0.0  # time of its last message, or of the first question after that


Event = tuple[Member, Message | Ended]


class ChildPool:
    """Runs the processes of its members. A process that says nothing for `silence` seconds, and owes an answer, hangs.

    Silence is the one sign of a hang: it shows a stopped process as well as one that waits for ever, and needs no
    second clock in the child. Before a hanging process is killed, it is asked which code it executes.

    `add` starts a member, `replace` starts another process for a member that has ended, and `poll` tells what happens.
    Any process, also one that was killed, is reaped before its end is told. `announce` gets sentences for the user.
    """

    def __init__(
        self,
        announce: Callable[[str], None],
        *,
        silence: float,
        budget: int | None = None,  # deaths within ten minutes that are accepted
        start: Callable[[Any, str], Child] = start_child,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.announce = announce
        self._silence = silence
        self._start_child = start
        self._clock = clock
        self._budget = budget
        self._deaths: deque[float] = deque()  # times within the window
        self.restarts = 0  # replacements so far
        self._members: list[Member] = []  # those that run, and those that will
        self._selector = selectors.DefaultSelector()
        self._next_check = 0.0
        self._said: set[str] = set()  # kinds of errors of which one traceback or output has been announced

    def fileno(self) -> int:
        """For a wait for several things: ready when `poll` would find a message or an end."""
        return self._selector.fileno()

    def process_ids(self) -> list[int]:
        return [member.child.pid for member in self._members if member.child is not None]

    def add(self, member: Member) -> None:
        """Start the first process of a member; if the system refuses it, end all others: WorkersFailedError."""
        try:
            self._start(member)
        except OSError as error:
            self.close()
            raise WorkersFailedError(
                f"{member.name} could not be started ({error.strerror}); a smaller --worker_count would be right."
            ) from None
        self._keep(member)

    def start_later(self, member: Member, seconds: float) -> None:
        """Start the first process of a member, or another one after it has ended, for a reason of the caller's."""
        self._keep(member)
        member.start_at = self._clock() + seconds

    def request(self, member: Member, kind: Kind, index: int = 0, payload: Any = None) -> None:
        """Send a message that the child answers. Whoever gets the answer subtracts it from what the member owes."""
        assert member.child is not None
        if not member.owes:
            member.silent_since = self._clock()
        member.owes += 1
        member.child.send(kind, index, payload)

    def start_due(self) -> None:
        """Start the replacements whose time has come. `poll` does it, too, but then it waits."""
        for member in self._members:
            waits = member.needs is not None and member.needs.child is None
            if member.child is None and member.start_at <= self._clock() and not waits:
                try:
                    self._start(member)
                except OSError as error:
                    how = f"could not be started again ({error.strerror or error})"
                    self._plan_start(member, how, from_outside=True)
                    if is_new(f"{member.name} {how}", self._said):
                        self.announce(f"{member.name} {how}, and is tried again")

    def poll(self, timeout: float, others: Sequence[Any] = ()) -> list[Event]:
        """Start what is due, then wait up to `timeout` seconds for messages and ends.

        The wait also ends when one of `others` is ready, which the caller reads. The messages of a child come before
        its end.
        """
        events: list[Event] = []
        self.start_due()
        for member in self._wait(timeout, others):
            self._receive(member, events)
        now = self._clock()
        checks = time.monotonic() >= self._next_check
        if checks:
            self._next_check = time.monotonic() + CHECK_SECONDS
        for member in list(self._members):
            if checks and member.child is not None:
                member.child.printed.limit()
                if member.child.has_ended:  # unheard: a process that its environment forked may keep its pipe open
                    self._receive(member, events)
                    self._lose(member, events)
            needed = member.needs
            if needed is not None and now - needed.silent_since > MISSED_HEARTBEATS * HEARTBEAT_SECONDS:
                member.silent_since = now  # it waits for that one
            elif member.child is not None and member.owes and now - member.silent_since > self._silence:
                place = member.child.where_it_hangs()
                what = f"did not respond for {self._silence:g} seconds"
                self._lose(member, events, Ended(what, "; it hangs here, most recent call first:", place, bool(place)))
        return events

    def replace(self, member: Member, ended: Ended) -> None:
        """Start another process for a member, now or later, and announce it.

        WorkersFailedError after too many failures.
        """
        self._keep(member)
        if ended.with_other:
            assert member.needs is not None
            member.start_at = self._clock()
            return
        # Once: each new process is likely to end in the same way.
        why = reason(ended.details)
        how = ended.in_words()
        if why and not is_new(f"{ended.what} {why}", self._said):
            how = f"{ended.what}, in the same way as before: {why}"
        self._plan_start(member, how, ended.from_outside)
        self.announce(f"{member.name} is replaced: it {how}")

    def _plan_start(self, member: Member, how: str, from_outside: bool) -> None:
        """Plan a replacement, later with each failure in a row.

        `how` says how the process ended; `from_outside`: killed by a user or for lack of memory, which is no failure of
        its own where a budget limits all deaths. WorkersFailedError after too many deaths or failures.
        """
        member.failures += 1
        now = self._clock()
        self._deaths.append(now)
        while self._deaths[0] < now - DEATHS_WINDOW:
            self._deaths.popleft()
        if self._budget is not None and len(self._deaths) > self._budget:
            raise WorkersFailedError(
                f"{member.name} {how}\nWithin ten minutes, processes of the run ended {len(self._deaths)} times, more "
                f"often than --worker_restart_budget={self._budget} allows."
            )
        if member.failures >= FAILURES_IN_A_ROW and not (from_outside and self._budget is not None):
            raise WorkersFailedError(
                f"{member.name} {how}\nIt ended {member.failures} times in a row before it delivered anything."
            )
        self.restarts += 1
        back_off = FIRST_BACK_OFF * 2 ** (member.failures - 2) if member.failures > 1 else 0.0
        member.start_at = now + min(LONGEST_BACK_OFF, back_off)

    def end(self, member: Member, grace: float = 0.0) -> None:
        """End a member's process, if it has one; no other one follows."""
        if member.child is not None:
            self._take_away(member).end(grace)
        if member in self._members:
            self._members.remove(member)

    def close(self) -> None:
        """End all processes. They hold nothing that could be lost."""
        for member in self._members:
            if member.child is not None:
                member.child.kill()
        for member in list(self._members):
            self.end(member)
        self._selector.close()

    def _keep(self, member: Member) -> None:
        self._members.append(member)
        self._members.sort(key=lambda each: each.index)

    def _wait(self, timeout: float, others: Sequence[Any]) -> list[Member]:
        """The members that have sent something, or have ended, in their order."""
        for other in others:
            self._selector.register(other, selectors.EVENT_READ)
        try:
            ready = [key.data for key, _ in self._selector.select(timeout) if key.data is not None]
        finally:
            for other in others:
                self._selector.unregister(other)
        return sorted(ready, key=lambda member: member.index)

    def _receive(self, member: Member, events: list[Event]) -> None:
        """Receive all messages of a process, also those that it sent before it died."""
        try:
            while member.child is not None and member.child.connection.poll():
                message = receive(member.child.connection)
                member.silent_since = self._clock()
                events.append((member, message))
        except ChildError as error:
            self._lose(member, events, Ended("failed", ":", str(error).rstrip(), in_code=True))
        except (EOFError, OSError):
            self._lose(member, events)

    def _start(self, member: Member) -> None:
        child = self._start_child(member.make(member.starts), member.name)
        member.starts += 1
        member.child = child
        member.silent_since = self._clock()
        member.owes = member.owes_at_start
        self._selector.register(child.connection, selectors.EVENT_READ, member)

    def _lose(self, member: Member, events: list[Event], ended: Ended | None = None) -> None:
        """End a process, and those that need it."""
        if member.child is None:
            return
        exit_code, printed = self._take_away(member).end()
        if ended is None:
            what = f"was killed by {_name(-exit_code)}" if exit_code < 0 else f"ended with code {exit_code}"
            ended = Ended(what, "; it printed last:", printed, from_outside=exit_code in KILLS_FROM_OUTSIDE)
        self._members.remove(member)
        events.append((member, ended))
        for other in [each for each in self._members if each.needs is member]:
            if other.child is not None:
                self._take_away(other).end()
                self._members.remove(other)
                events.append((other, Ended(with_other=True)))

    def _take_away(self, member: Member) -> Child:
        child, member.child = member.child, None
        assert child is not None
        member.owes = 0
        self._selector.unregister(child.connection)
        return child


def _name(number: int) -> str:
    """The name of a signal; most of the real-time signals have none."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")
