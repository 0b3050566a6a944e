"""When workers play, and in which order what they deliver is taken."""

from typing import Protocol

Filled = tuple[int, int]  # the index of a worker's place, and of a slot there


class Turns(Protocol):
    """A round is what one slot holds: an unroll from each environment of a worker."""

    @property
    def limit(self) -> int:
        """Rounds that may be under way: those that are played, and those delivered that are not taken to their end."""

    def nothing_there(self, learner_waits: bool) -> None:
        """Nothing lies there to be taken."""

    def fill(self, filled: Filled) -> list[Filled]:
        """A worker has filled a slot; what can be taken now, in order."""

    def begin(self, behind: int) -> None:
        """The learner begins to take a round; so many others lie behind it."""


class OnDemand:
    """Workers play when the learner needs it: as many rounds are under way as keep it busy.

    More would lie there and grow old. Where the learner has to wait, there is to be one more; where it never began
    with a round but some others lay behind it, half of those fewer.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = most
        self._has_waited = False  # since it began to take the latest round
        self._watch()

    def _watch(self) -> None:
        self._seen, self._fewest_behind = 0, self._most

    def nothing_there(self, learner_waits: bool) -> None:
        if learner_waits and not self._has_waited:
            self._has_waited = True
            self.limit = min(self._most, self.limit + 1)
            self._watch()

    def fill(self, filled: Filled) -> list[Filled]:
        return [filled]

    def begin(self, behind: int) -> None:
        self._has_waited = False
        if behind >= self.limit:  # from before there were to be fewer
            return
        self._seen += 1
        self._fewest_behind = min(self._fewest_behind, behind)
        if self._seen >= self.limit:
            self.limit -= (self._fewest_behind + 1) // 2
            self._watch()


class Lockstep:
    """Workers play only while the learner waits, each fills a slot, and all are taken in one order.

    The same unrolls then meet the same weights in every run.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._filled: list[Filled] = []
        self.playing = False

    @property
    def limit(self) -> int:
        return self._workers if self.playing else 0

    def nothing_there(self, learner_waits: bool) -> None:
        self.playing = True

    def fill(self, filled: Filled) -> list[Filled]:
        self._filled.append(filled)
        if len(self._filled) < self._workers:
            return []
        whole, self._filled, self.playing = sorted(self._filled), [], False
        return whole

    def begin(self, behind: int) -> None:
        pass
