"""When workers play, and in which order what they deliver is taken."""

from typing import Protocol

Filled = tuple[int, int]  # the index of a worker's place, and of a slot there


class Turns(Protocol):
    playing: bool  # whether workers write the slots that are free

    def begin(self) -> bool:
        """Called when nothing lies there to be taken; whether workers begin to play with it."""

    def fill(self, filled: Filled) -> list[Filled]:
        """A worker has filled a slot; what can be taken now, in order."""


class AsItComes:
    """Everybody plays all the time."""

    playing = True

    def begin(self) -> bool:
        return False

    def fill(self, filled: Filled) -> list[Filled]:
        return [filled]


class Rounds:
    """Lockstep: workers play only while the learner waits, each fills a slot, and all are taken in one order.

    The same unrolls then meet the same weights in every run.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._filled: list[Filled] = []
        self.playing = False

    def begin(self) -> bool:
        begins, self.playing = not self.playing, True
        return begins

    def fill(self, filled: Filled) -> list[Filled]:
        self._filled.append(filled)
        if len(self._filled) < self._workers:
            return []
        whole, self._filled, self.playing = sorted(self._filled), [], False
        return whole
