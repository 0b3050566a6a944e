"""Unrolls from a pool of real processes, also in lockstep and when some of them hang."""

import os
import signal
import time

import pytest

from tests.workers.pools import MakePool, take
from workers.worker_pool import WorkerPool

pytestmark = pytest.mark.slow


def test_every_unroll_arrives_once_and_in_order(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, environments=3)
    patterns = take(pool, 300, limit=2)
    while min([worker for worker, *_ in patterns].count(worker) for worker in range(2)) <= 30:  # one may start late
        patterns += take(pool, 100, limit=2)
    assert len(set(patterns)) == len(patterns)
    for worker in range(2):
        mine = [(count, environment) for w, _, count, environment in patterns if w == worker]
        whole = [(count, environment) for count in range(len(mine) // 3 + 1) for environment in range(3)]
        assert mine == whole[: len(mine)]
    assert pool.alive == 2
    assert not announced


def test_a_worker_is_never_further_ahead_than_its_slots(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=1, slots=2, environments=1)
    take(pool, 5)
    while pool.rounds_ready < 2:
        pool.wait(0.0)
    time.sleep(0.05)  # time in which it could play more
    pool.wait(0.0)
    assert len(list(pool.take(100))) == 2


def take_slowly(pool: WorkerPool) -> list[tuple[int, int, int, int]]:
    """Take each round only when all rounds in flight are ready, until there are at most two."""
    patterns = []
    for _ in range(100):
        while not pool.rounds_under_way or pool.rounds_ready < pool.rounds_under_way:
            pool.wait(0.0)
            time.sleep(0.001)
        patterns += take(pool, 2)
    assert pool.rounds_under_way <= 2
    return patterns


def test_workers_pause_while_the_learner_is_behind(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=4, slots=2, environments=2)
    patterns = take_slowly(pool)
    later = take(pool, 2)
    while {worker for worker, *_ in later} != {0, 1, 2, 3}:  # they play by turns, but a busy machine may delay one
        later += take(pool, 2)
    assert len(set(patterns + later)) == len(patterns + later)


def test_workers_that_hang_do_not_stop_the_others(make_pool: MakePool) -> None:
    """All rounds in flight may belong to workers that hang: then the limit rises."""
    pool, announced = make_pool(workers=4, slots=1, pause=0.001)
    take_slowly(pool)
    for hanging in pool.children.process_ids()[:2]:
        os.kill(hanging, signal.SIGSTOP)
    while {worker for worker, *_ in take(pool, 8)} != {2, 3}:
        pass
    assert {worker for worker, *_ in take(pool, 40)} <= {2, 3}  # on a busy machine, one may play most of them
    assert not announced


def test_lockstep_takes_rounds_in_the_order_of_the_workers(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=3, slots=1, environments=2, lockstep=True)
    expected = [(w, 0, count, e) for count in range(10) for w in range(3) for e in range(2)]
    assert take(pool, 60, limit=4) == expected


def test_lockstep_workers_play_only_while_the_learner_waits(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    take(pool, 2)
    for _ in range(3):
        pool.wait(0.0)
        time.sleep(0.05)
    assert not pool.rounds_under_way
    assert len(take(pool, 2)) == 2


def test_lockstep_continues_after_a_kill(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    take(pool, 4)
    os.kill(pool.children.process_ids()[1], signal.SIGKILL)
    after = take(pool, 8)
    assert [worker for worker, *_ in after] == [0, 1] * 4
    assert len(announced) == 1


def test_workers_ignore_interrupts(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1)
    os.kill(pool.children.process_ids()[0], signal.SIGINT)  # while it starts
    take(pool, 4)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(pool.children.process_ids()[0], number)
        take(pool, 8)
    assert not announced
