"""Which nodes of a cluster get a learner, and how many CPUs it has there."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Room(NamedTuple):
    """A node that nothing else uses."""

    node: str
    cpus: int
    gpus: int

    def most(self, need_gpus: bool) -> int:
        """Learners that fit."""
        return min(self.cpus, self.gpus) if need_gpus else self.cpus


class Seat(NamedTuple):
    """The place of one learner."""

    node: str
    cpus: int


def most_learners(rooms: Sequence[Room], need_gpus: bool) -> int:
    return sum(room.most(need_gpus) for room in rooms)


def choose_seats(rooms: Sequence[Room], learners: int, own: str, need_gpus: bool) -> list[Seat]:
    """The seats by rank; those of a node follow each other. There must be room for all.

    The first learner is on the node `own`, if there is room: it writes the run's folder. Each further one goes where
    it has the most CPUs, because all learners wait for the slowest one.
    """
    rooms = sorted(rooms, key=lambda room: room.node != own)
    counts: Counter[str] = Counter()
    for _ in range(learners):
        able = [room for room in rooms if counts[room.node] < room.most(need_gpus)]
        if counts or able[0].node != own:
            able.sort(key=lambda room: -room.cpus / (counts[room.node] + 1))
        counts[able[0].node] += 1
    return [Seat(room.node, room.cpus // counts[room.node]) for room in rooms for _ in range(counts[room.node])]
