"""Which slots are handed out, and in which order unrolls are taken, with workers that do what the test says."""

from typing import Any, cast

import numpy as np
import pytest
import torch

from processes.child import Child
from processes.messages import Kind, Message
from processes.pool import ChildPool, Ended, Event, Member
from workers.flow_control import FlowControl, Lockstep, PlayOnDemand, PlayOnRequest
from workers.worker_pool import WorkerPool

WORKERS, SLOTS, ENVIRONMENTS = 3, 2, 2


class Workers:
    """In place of a pool of processes."""

    restarts = 0

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.events: list[Event] = []
        self._handed_out: list[tuple[int, int]] = []

    def add(self, member: Member) -> None:
        member.child = cast(Child, self)
        self.members.append(member)

    def request(self, member: Member, kind: Kind, index: int = 0) -> None:
        if kind == Kind.SLOT_FREE:
            self._handed_out.append((member.index, index))
        else:
            self.events.append((member, Message(Kind.SNAPSHOT, 0, {})))

    def poll(self, timeout: float, others: Any = ()) -> list[Event]:
        events, self.events = self.events, []
        return events

    def handed_out(self) -> list[tuple[int, int]]:
        """The slots since the last call."""
        slots, self._handed_out = self._handed_out, []
        return slots

    def lose(self, worker: int) -> None:
        self.members[worker].child = None
        self.events.append((self.members[worker], Ended()))

    def replace(self, member: Member, ended: Ended) -> None:
        """Not before the test adds it again."""


class Pool:
    """Each unroll is one byte: ten times its worker, plus its environment."""

    def __init__(self, flow_control: FlowControl, slots: int = SLOTS, snapshot: dict[str, Any] | None = None) -> None:
        rows = np.zeros((WORKERS, slots, ENVIRONMENTS, 1), np.uint8)
        rows += 10 * np.arange(WORKERS, dtype=np.uint8)[:, None, None, None]
        rows += np.arange(ENVIRONMENTS, dtype=np.uint8)[:, None]
        self.workers = Workers()
        self.pool = WorkerPool(cast(ChildPool, self.workers), cast(Any, None), rows, flow_control, snapshot=snapshot)

    def handed_out(self, timeout: float = 0.0) -> list[tuple[int, int]]:
        self.pool.wait(timeout)
        return self.workers.handed_out()

    def fill(self, *slots: tuple[int, int]) -> None:
        self.workers.events += [
            (self.workers.members[worker], Message(Kind.SLOT_FILLED, slot)) for worker, slot in slots
        ]
        self.pool.wait(0.0)

    def take(self, limit: int = 1000) -> list[int]:
        return [int(unroll[0]) for unroll in self.pool.take(limit)]


def all_at_once(workers: int = WORKERS, slots: int = SLOTS) -> FlowControl:
    flow_control = PlayOnRequest()
    flow_control.limit = workers * slots
    return flow_control


def test_slots_are_handed_out_by_turns_and_unrolls_taken_as_delivered() -> None:
    pool = Pool(all_at_once())
    assert pool.handed_out() == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert pool.handed_out() == []
    pool.fill((1, 0), (0, 0))
    assert (pool.pool.rounds_ready, pool.pool.rounds_under_way) == (2, 6)
    assert pool.take(limit=3) == [10, 11, 0]
    assert pool.handed_out() == [(1, 0)], "a slot is free once all of its unrolls are taken"
    assert pool.take() == [1]


def test_slots_of_a_lost_worker_wait_for_its_replacement() -> None:
    pool = Pool(all_at_once())
    pool.handed_out()
    pool.fill((1, 0))
    pool.workers.lose(1)
    assert pool.handed_out() == []
    assert pool.take() == [10, 11], "what it delivered counts"
    assert pool.handed_out() == []
    pool.workers.members[1].child = cast(Child, pool.workers)
    assert pool.handed_out() == [(1, 1), (1, 0)]


def test_lockstep_workers_play_while_the_learner_waits_and_their_order_counts() -> None:
    pool = Pool(Lockstep(WORKERS), slots=1)
    assert pool.handed_out() == []
    assert pool.handed_out(timeout=1.0) == [(0, 0), (1, 0), (2, 0)]
    for worker in (2, 0, 1):
        assert not pool.pool.rounds_ready
        pool.fill((worker, 0))
    assert pool.take() == [0, 1, 10, 11, 20, 21]
    assert pool.handed_out() == []


def test_untaken_unrolls_are_continued_with_in_another_pool() -> None:
    for taken in range(WORKERS * ENVIRONMENTS + 1):
        pool = Pool(Lockstep(WORKERS), slots=1)
        pool.fill(*pool.handed_out(timeout=1.0))
        assert len(pool.take(taken)) == taken
        snapshot = pool.pool.snapshot(lambda: False)
        assert snapshot is not None
        unrolls = snapshot["unrolls"] = snapshot["unrolls"] + 100
        other = Pool(Lockstep(WORKERS), slots=1, snapshot=snapshot)
        assert other.pool.rounds_under_way == pool.pool.rounds_under_way
        assert other.take() == torch.flatten(unrolls).tolist() == [100 + unroll for unroll in pool.take()]


def turns(flow_control: FlowControl, rounds: int) -> list[int]:
    """The workers of so many rounds, of 40 workers with 32 games each. The third one is lost."""
    workers = Workers()
    pool = WorkerPool(cast(ChildPool, workers), cast(Any, None), np.zeros((40, 1, 32, 1), np.uint8), flow_control)
    workers.lose(2)
    played: list[int] = []
    while len(played) < rounds:
        pool.wait(0.0)
        for worker, slot in workers.handed_out():
            played.append(worker)
            workers.events.append((workers.members[worker], Message(Kind.SLOT_FILLED, slot)))
        list(pool.take(32))
    return played


def test_no_more_games_are_played_by_turns_than_the_learner_needs() -> None:
    """It needs four workers at once; so 256 games are played, not 1,280."""
    flow_control = PlayOnRequest()
    flow_control.limit = 4
    played = turns(flow_control, 1000)[40:]
    assert set(played) == {0, 1, 3, 4, 5, 6, 7}, "without the worker that is lost"
    counts = [played.count(worker) for worker in set(played)]
    assert max(counts) <= min(counts) + 1


def test_workers_beyond_those_play_when_the_learner_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.flow_control.FIRST", 30.0)
    assert set(turns(PlayOnDemand(40), 30)) == set(range(31)) - {2}
