"""Backpressure: how many rounds may be in flight, and in which order delivered rounds are taken.

A round is the content of one slot: one unroll from each environment of a worker. It is in flight from the moment the
worker may play it until the learner has taken all of its unrolls.
"""

import math
import time
from collections import deque
from collections.abc import Callable

WorkerSlot = tuple[int, int]  # the index of a worker, and of one of its slots

FIRST = 4.0  # rounds in flight at the start, of a pool that has more
RAISE = 0.125  # of a round, when the learner waits
FAST_RAISE = 1.0  # until the limit has been too high for the first time
RAISE_SECONDS = 0.1  # of waiting after which the limit rises again
SPARE = 0.25  # rounds of a surplus that are kept at first, so that chance alone seldom makes the learner wait


class FlowControl:
    """Limits the rounds in flight. A subclass overrides what changes its limit."""

    @property
    def limit(self) -> int:
        """Rounds that may be in flight."""
        raise NotImplementedError

    def nothing_delivered(self, learner_waits: bool) -> None:
        """The learner looked for delivered rounds and found none. It waits if it cannot update without them."""

    def deliver(self, filled: WorkerSlot) -> list[WorkerSlot]:
        """A worker has filled a slot. Return the slots that the learner can take now, in order."""
        return [filled]

    def unrolls_taken(self, taken: int, of: int) -> None:
        """The learner has taken so many unrolls of the oldest delivered round."""


class PlayOnDemand(FlowControl):
    """Keeps only as many rounds in flight as the learner needs, so that policy lag stays small.

    Rounds are counted in fractions: of the round that the learner takes now, only the rest is in flight. The limit
    rises by an eighth of a round when the learner has to wait, and again with each tenth of a second. It falls when all
    rounds come early: the smallest number of rounds that the learner took while a delivered one waited, over
    `window * limit` rounds, is a surplus, and the limit falls by all of it but a quarter of a round, or by half of it
    if that is more. With a shorter window, lag is smaller and the learner waits a little more often.

    At the start only `FIRST` rounds are in flight, however many workers there are: otherwise the learner would be busy
    for long with rounds of the untrained policy. The limit then rises faster, until it first falls. An example with
    eight rounds at most:

        what happens                                             limit
        the run starts                                           4
        the learner waits, and no round was delivered yet        4       (the workers are starting)
        it has taken the first round, and waits for the next     5
        it still waits 0.1 seconds later                         6
        12 rounds: 3 more were taken while each lay ready        3.25    (3 less a quarter; 12 are 2 windows of 6)
        6 rounds that were in flight then                        3.25    (they do not count)
        the learner waits                                        3.375   (an eighth, as the limit has fallen once)
        it takes half of a round                                 3.875   (of which three may be in flight)
    """

    def __init__(self, max_limit: int, clock: Callable[[], float] = time.monotonic, window: float = 2.0) -> None:
        self.max_limit = max_limit
        self._clock = clock
        self._window = window
        self._limit = min(float(max_limit), FIRST)
        self._has_delivered = self._has_fallen = False
        self._is_waiting = False  # for the next round
        self._raised_at = 0.0
        self._finished = 0  # rounds that the learner has taken
        self._part = 0.0  # of the next one
        self._delivered: deque[float] = deque()  # what the learner had taken when each waiting round was delivered
        self._start_counting()

    def _start_counting(self, skipped: int = 0) -> None:
        """The next `skipped` rounds do not count: they were in flight when the limit changed."""
        self._rounds_seen, self._surplus = -skipped, float(self.max_limit)

    @property
    def limit(self) -> int:
        return int(self._limit + self._part)

    def set_max_limit(self, max_limit: int) -> None:
        """Workers have come or gone. For the rounds of new ones, the limit rises as at the start."""
        added = max(0, max_limit - self.max_limit)
        self.max_limit = max_limit
        self._limit = min(float(max_limit), self._limit + min(added, FIRST))
        if added:
            self._has_fallen = False
            self._start_counting()

    def nothing_delivered(self, learner_waits: bool) -> None:
        now = self._clock()
        if learner_waits and (not self._is_waiting or now - self._raised_at >= RAISE_SECONDS):
            self._is_waiting, self._raised_at = True, now
            if self._has_delivered:  # before that, the workers are starting
                raise_by = RAISE if self._has_fallen else FAST_RAISE
                self._limit = min(float(self.max_limit), self._limit + raise_by)
            self._start_counting()

    def deliver(self, filled: WorkerSlot) -> list[WorkerSlot]:
        self._has_delivered = True
        self._delivered.append(self._finished + self._part)
        return [filled]

    def unrolls_taken(self, taken: int, of: int) -> None:
        if taken == 1:
            self._start_round()
        self._part = taken / of
        if taken == of:
            self._finished, self._part = self._finished + 1, 0.0

    def _start_round(self) -> None:
        self._is_waiting = False
        waited = self._finished + self._part - self._delivered.popleft()
        self._rounds_seen += 1
        if self._rounds_seen > 0:
            self._surplus = min(self._surplus, waited)
        if self._rounds_seen >= self._window * self._limit:
            fall = max(self._surplus / 2, self._surplus - SPARE)
            self._has_fallen = self._has_fallen or fall > 0
            before, self._limit = self._limit, max(min(1.0, self._limit), self._limit - fall)
            self._start_counting(skipped=math.ceil(before) if fall else 0)


class PlayOnRequest(FlowControl):
    """As many rounds as somebody else asks for: the owner of the pool sets the limit before each wait."""

    limit = 0


class Lockstep(FlowControl):
    """Workers play only while the learner waits: one round each, taken in the order of the workers.

    So all runs with the same seed play the same unrolls with the same weights.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._filled: list[WorkerSlot] = []
        self._playing = False

    @property
    def limit(self) -> int:
        return self._workers if self._playing else 0

    def nothing_delivered(self, learner_waits: bool) -> None:
        if learner_waits:
            self._playing = True

    def deliver(self, filled: WorkerSlot) -> list[WorkerSlot]:
        self._filled.append(filled)
        if len(self._filled) < self._workers:
            return []
        delivered, self._filled, self._playing = sorted(self._filled), [], False
        return delivered
