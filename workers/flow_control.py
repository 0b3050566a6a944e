"""Backpressure: how many rounds may be in flight, and in which order delivered rounds are taken.

A round is the content of one slot: one unroll from each environment of a worker. It is in flight from the moment the
worker may play it until the learner has taken all of its unrolls.
"""

from typing import Protocol

WorkerSlot = tuple[int, int]  # the index of a worker, and of one of its slots

WAITS_PER_RAISE = 10  # the learner waits a tenth of a second each time; after ten waits the limit rises by one more


class FlowControl(Protocol):
    """Limits the rounds in flight."""

    @property
    def limit(self) -> int:
        """Rounds that may be in flight."""

    def nothing_delivered(self, learner_waits: bool) -> None:
        """The learner looked for delivered rounds and found none. It waits if it cannot update without them."""

    def deliver(self, filled: WorkerSlot) -> list[WorkerSlot]:
        """A worker has filled a slot. Return the slots that the learner can take now, in order."""

    def learner_starts_round(self, ready_behind: int) -> None:
        """The learner starts to take the unrolls of a round; `ready_behind` other rounds are ready."""


class PlayOnDemand:
    """Keeps only as many rounds in flight as the learner needs, so that policy lag stays small.

    The limit rises by one when the learner has to wait, and by one more with each second of waiting. It falls when
    some rounds are always ready: the smallest number of other rounds that were ready whenever the learner started one,
    over `2 * limit` rounds, is a surplus, and the limit falls by half of it (rounded up).
    """

    def __init__(self, max_limit: int) -> None:
        self.max_limit = max_limit
        self.limit = max_limit
        self._waits = 0  # since the learner started to take the latest round
        self._start_counting()

    def _start_counting(self) -> None:
        self._rounds_seen, self._fewest_ready = 0, self.max_limit

    def nothing_delivered(self, learner_waits: bool) -> None:
        if not learner_waits:
            return
        if self._waits % WAITS_PER_RAISE == 0:
            self.limit = min(self.max_limit, self.limit + 1)
            self._start_counting()
        self._waits += 1

    def deliver(self, filled: WorkerSlot) -> list[WorkerSlot]:
        return [filled]

    def learner_starts_round(self, ready_behind: int) -> None:
        self._waits = 0
        if ready_behind >= self.limit:  # the limit fell, and more rounds than it allows are still in flight
            return
        self._rounds_seen += 1
        self._fewest_ready = min(self._fewest_ready, ready_behind)
        if self._rounds_seen >= 2 * self.limit:
            self.limit -= (self._fewest_ready + 1) // 2
            self._start_counting()


class PlayOnRequest:
    """As many rounds as somebody else asks for: the owner of the pool sets the limit before each wait."""

    def __init__(self) -> None:
        self.limit = 0

    def nothing_delivered(self, learner_waits: bool) -> None:
        pass

    def deliver(self, filled: WorkerSlot) -> list[WorkerSlot]:
        return [filled]

    def learner_starts_round(self, ready_behind: int) -> None:
        pass


class Lockstep:
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

    def learner_starts_round(self, ready_behind: int) -> None:
        pass
