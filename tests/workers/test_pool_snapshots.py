"""Snapshots of a pool in lockstep, from which another pool continues."""

import os
import signal
from typing import Any

import pytest
import torch

from tests.workers.pattern_worker import ROW_BYTES
from tests.workers.pools import Clock, MakePool, after, take, wait_for_silence

pytestmark = pytest.mark.slow


def test_another_pool_continues_from_a_snapshot(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=2, slots=1, environments=3, lockstep=True)
    taken = take(pool, 8)
    snapshot = pool.snapshot(after(30))
    assert snapshot is not None
    assert snapshot["snapshots"] == [{"index": 0, "count": 2}, {"index": 1, "count": 2}]
    other, _ = make_pool(workers=2, slots=1, environments=3, lockstep=True, snapshot=snapshot)
    restored = take(other, 4)
    assert restored == take(pool, 4)
    assert taken + restored == [(w, 0, count, e) for count in range(2) for w in range(2) for e in range(3)]
    assert take(other, 1) == [(0, 0, 2, 0)], "then its own workers play"


def saved_games(workers: int) -> dict[str, Any]:
    snapshots = [{"count": 5} for _ in range(workers)]
    return {"snapshots": snapshots, "unrolls": torch.empty((0, ROW_BYTES), dtype=torch.uint8)}


def test_a_worker_that_dies_while_it_starts_continues_from_the_snapshot_too(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True, snapshot=saved_games(2))
    os.kill(pool.children.process_ids()[0], signal.SIGKILL)
    assert take(pool, 4) == [(0, 1, 5, 0), (1, 0, 5, 0), (0, 1, 6, 0), (1, 0, 6, 0)]
    assert announced == ["worker 0 is replaced: it was killed by SIGKILL"]


def test_a_worker_that_dies_before_it_has_played_is_restored_again(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True, snapshot=saved_games(2))
    os.kill(pool.children.process_ids()[0], signal.SIGSTOP)  # it plays nothing
    while not pool.rounds_under_way:
        pool.wait(0.01)
    os.kill(pool.children.process_ids()[0], signal.SIGKILL)
    assert take(pool, 4) == [(0, 1, 5, 0), (1, 0, 5, 0), (0, 1, 6, 0), (1, 0, 6, 0)]
    assert len(announced) == 1


def test_a_worker_that_hangs_before_it_plays_is_replaced(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(
        workers=1, slots=1, environments=1, lockstep=True, snapshot=saved_games(1), hangs_at_start=True
    )
    wait_for_silence(pool, clock, announced)
    assert "worker 0 is replaced: it did not respond for 60 seconds" in announced[0]
    assert take(pool, 2) == [(0, 1, 5, 0), (0, 1, 6, 0)]


def test_workers_that_have_not_played_since_are_saved_as_they_were_restored(make_pool: MakePool) -> None:
    games = saved_games(2)
    pool, _ = make_pool(workers=2, slots=1, environments=1, lockstep=True, snapshot=games, hangs_at_start=True)
    snapshot = pool.snapshot(after(60))
    assert snapshot is not None and snapshot["snapshots"] == games["snapshots"]


def test_a_worker_lost_during_a_round_plays_it_again_before_a_snapshot(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    take(pool, 2)
    os.kill(pool.children.process_ids()[1], signal.SIGSTOP)  # it cannot end the next round
    pool.wait(0.001)  # the next round starts
    os.kill(pool.children.process_ids()[1], signal.SIGKILL)
    snapshot = pool.snapshot(after(60))
    assert snapshot is not None and len(announced) == 1
    assert snapshot["snapshots"] == [{"index": 0, "count": 2}, {"index": 1, "count": 1}]


def test_a_worker_lost_during_a_snapshot_is_replaced(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    take(pool, 2)
    os.kill(pool.children.process_ids()[0], signal.SIGKILL)
    assert pool.snapshot(after(60)) is None
    assert announced == ["worker 0 is replaced: it was killed by SIGKILL"]
    assert [worker for worker, *_ in take(pool, 4)] == [0, 1, 0, 1]


def test_a_snapshot_that_comes_too_late_is_ignored(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, slots=1, environments=1, lockstep=True)
    take(pool, 1)
    os.kill(pool.children.process_ids()[0], signal.SIGSTOP)
    assert pool.snapshot(after(0.05)) is None
    os.kill(pool.children.process_ids()[0], signal.SIGCONT)
    assert take(pool, 3) == [(0, 0, count, 0) for count in (1, 2, 3)]
    assert not announced
