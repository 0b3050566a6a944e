"""Which slots are handed out, and in which order unrolls are taken."""

import numpy as np

from workers.flow_control import Lockstep, PlayOnDemand
from workers.round_queue import RoundQueue

WORKERS, SLOTS, ENVIRONMENTS = 3, 2, 2


def make_queue(lockstep: bool = False, slots: int = SLOTS) -> RoundQueue:
    """Each unroll is one byte: ten times its worker, plus its environment."""
    rows = np.zeros((WORKERS, slots, ENVIRONMENTS, 1), np.uint8)
    rows += 10 * np.arange(WORKERS, dtype=np.uint8)[:, None, None, None]
    rows += np.arange(ENVIRONMENTS, dtype=np.uint8)[:, None]
    return RoundQueue(rows, Lockstep(WORKERS) if lockstep else PlayOnDemand(WORKERS * slots, first=WORKERS * slots))


def take_all(queue: RoundQueue, limit: int = 1000) -> list[int]:
    taken: list[int] = []
    while queue.ready and len(taken) < limit:
        taken.append(int(queue.next_unroll()[0]))
        queue.unroll_taken()
    return taken


def test_slots_are_handed_out_by_turns_and_unrolls_taken_as_delivered() -> None:
    queue = make_queue()
    assert queue.hand_out(lambda worker: True) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert queue.hand_out(lambda worker: True) == []
    queue.deliver(1, 0)
    queue.deliver(0, 0)
    assert (queue.ready, queue.in_flight) == (2, 6)
    assert take_all(queue, limit=3) == [10, 11, 0]
    assert queue.hand_out(lambda worker: True) == [(1, 0)], "a slot is free once all of its unrolls are taken"
    assert take_all(queue) == [1]


def test_slots_of_a_lost_worker_wait_for_its_replacement() -> None:
    queue = make_queue()
    queue.hand_out(lambda worker: True)
    queue.deliver(1, 0)
    queue.take_back(1)
    assert take_all(queue) == [10, 11], "what it delivered counts"
    assert queue.hand_out(lambda worker: worker != 1) == []
    assert queue.hand_out(lambda worker: True) == [(1, 1), (1, 0)]


def test_workers_pause_at_the_limit() -> None:
    queue = make_queue(lockstep=True, slots=1)
    assert queue.hand_out(lambda worker: True) == [] and queue.workers_pause
    queue.flow_control.nothing_delivered(learner_waits=True)
    assert queue.hand_out(lambda worker: True) == [(0, 0), (1, 0), (2, 0)] and not queue.workers_pause
    for worker in (2, 0, 1):
        assert not queue.ready
        queue.deliver(worker, 0)
    assert queue.workers_pause
    assert take_all(queue) == [0, 1, 10, 11, 20, 21]


def test_untaken_unrolls_are_restored_in_another_queue() -> None:
    for taken in range(WORKERS * ENVIRONMENTS + 1):
        queue, other = make_queue(lockstep=True, slots=1), make_queue(lockstep=True, slots=1)
        queue.flow_control.nothing_delivered(learner_waits=True)
        for worker, slot in queue.hand_out(lambda worker: True):
            queue.deliver(worker, slot)
        assert len(take_all(queue, taken)) == taken
        unrolls = queue.untaken_unrolls() + 100
        other.restore_untaken(unrolls)
        assert other.in_flight == queue.in_flight
        assert take_all(other) == unrolls[:, 0].tolist() == [100 + unroll for unroll in take_all(queue)]


def test_no_more_games_are_played_by_turns_than_the_learner_needs() -> None:
    """Of 40 workers with 32 games, it needs four at once; so 256 games are played, not 1,280."""
    queue = RoundQueue(np.zeros((40, 1, 32, 1), np.uint8), PlayOnDemand(40))
    played: list[int] = []
    for _ in range(1000):
        for worker, slot in queue.hand_out(lambda worker: worker != 2):
            played.append(worker)
            queue.deliver(worker, slot)
        queue.next_unroll()
        queue.unroll_taken()
    assert set(played) == {0, 1, 3, 4, 5, 6, 7}, "without the worker that is lost"
    counts = [played.count(worker) for worker in set(played)]
    assert max(counts) <= min(counts) + 1


def test_workers_beyond_those_play_when_the_learner_needs_them() -> None:
    queue = RoundQueue(np.zeros((40, 1, 32, 1), np.uint8), PlayOnDemand(40, first=30))
    assert [worker for worker, _ in queue.hand_out(lambda worker: True)] == list(range(30))
    assert queue.hand_out(lambda worker: True) == []
