"""When workers play, and in which order what they deliver is taken."""

from typing import Protocol

Filled = tuple[int, int]  # the index of a worker's place, and of a slot there

LOOKS_IN_VAIN = 10  # of a learner that waits, a tenth of a second each, until one more round is to be under way


class Turns(Protocol):
    """A round is what one slot holds: an unroll from each environment of a worker."""

    @property
    def limit(self) -> int:
        """Rounds that may be under way: those that are played, and those delivered that are not taken to their end."""

    def found_nothing(self, learner_waits: bool) -> None:
        """The learner has looked, and nothing lies there to be taken."""

    def fill(self, filled: Filled) -> list[Filled]:
        """A worker has filled a slot; what can be taken now, in order."""

    def round_begun(self, behind: int) -> None:
        """The learner begins to take a round; so many others lie behind it."""


class OnDemand:
    """Workers play when the learner needs it: as many rounds are under way as keep it busy.

    More would lie there and grow old. Where the learner has to wait, there is to be one more, and another with each
    second that it goes on. After twice as many rounds as there may be, the fewest that lay ready behind one of them
    were never needed: half of these, rounded up, are taken off.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = most
        self._looks = 0  # in vain, since it began to take the latest round
        self._watch_anew()

    def _watch_anew(self) -> None:
        self._seen, self._fewest_behind = 0, self._most

    def found_nothing(self, learner_waits: bool) -> None:
        if not learner_waits:
            return
        if self._looks % LOOKS_IN_VAIN == 0:
            self.limit = min(self._most, self.limit + 1)
            self._watch_anew()
        self._looks += 1

    def fill(self, filled: Filled) -> list[Filled]:
        return [filled]

    def round_begun(self, behind: int) -> None:
        self._looks = 0
        if behind >= self.limit:  # from before there were to be fewer
            return
        self._seen += 1
        self._fewest_behind = min(self._fewest_behind, behind)
        if self._seen >= 2 * self.limit:
            self.limit -= (self._fewest_behind + 1) // 2
            self._watch_anew()


class Lockstep:
    """Workers play only while the learner waits, each fills a slot, and all are taken in one order.

    The same unrolls then meet the same weights in every run.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._filled: list[Filled] = []
        self._playing = False

    @property
    def limit(self) -> int:
        return self._workers if self._playing else 0

    def found_nothing(self, learner_waits: bool) -> None:
        if learner_waits:  # otherwise it updates first
            self._playing = True

    def fill(self, filled: Filled) -> list[Filled]:
        self._filled.append(filled)
        if len(self._filled) < self._workers:
            return []
        whole, self._filled, self._playing = sorted(self._filled), [], False
        return whole

    def round_begun(self, behind: int) -> None:
        pass
