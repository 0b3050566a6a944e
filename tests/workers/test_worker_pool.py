"""A pool of real processes that are killed, stopped or raise exceptions."""

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import psutil
import pytest
import torch

from tests.processes import spawned
from tests.workers.pattern_worker import ROW_BYTES, PatternWorker, SilentServer, read_pattern
from workers.child_process import start_process
from workers.failures import WorkersFailedError
from workers.inference.server import InferenceServer
from workers.restarts import FAILURES_IN_A_ROW, REFUSALS_IN_A_ROW, REFUSED_SECONDS
from workers.slots import Slots
from workers.worker_pool import WorkerPool

pytestmark = pytest.mark.slow

MakePool = Callable[..., tuple[WorkerPool, list[str]]]
SILENCE_LIMIT = 60.0


class Clock:
    """The pool's clock, which stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_pool(clock: Clock) -> Iterator[MakePool]:
    pools = []

    def make(
        workers: int = 2,
        slots: int = 2,
        environments: int = 2,
        lockstep: bool = False,
        restart_budget: int = 100,
        server: SilentServer | None = None,
        start: Callable[..., Any] = start_process,
        **behaviour: float,
    ) -> tuple[WorkerPool, list[str]]:
        memory = Slots(workers, slots, environments, ROW_BYTES)
        announced: list[str] = []
        pool = WorkerPool(
            partial(PatternWorker, memory, **behaviour),  # type: ignore[arg-type]
            memory,
            announced.append,
            lockstep=lockstep,
            silence_limit=SILENCE_LIMIT,
            restart_budget=restart_budget,
            server=cast(InferenceServer | None, server),
            clock=clock,
            start=start,
        )
        pools.append((pool, memory))
        return pool, announced

    yield make
    for pool, memory in pools:
        pool.close()
        memory.close()
    # multiprocessing's own resource tracker stays for the life of this process.
    children = [child for child in psutil.Process().children() if "resource_tracker" not in " ".join(child.cmdline())]
    assert not children


def take(pool: WorkerPool, count: int, limit: int = 3) -> list[tuple[int, int, int, int]]:
    """The patterns of the next `count` unrolls."""
    patterns: list[tuple[int, int, int, int]] = []
    while len(patterns) < count:
        pool.wait(0.1)
        patterns.extend(read_pattern(row) for row in pool.take(min(limit, count - len(patterns))))
    return patterns


def wait_for_replacements(pool: WorkerPool, clock: Clock) -> None:
    """Move the clock until all lost workers are replaced."""
    while pool.alive < pool.size:
        clock.now += 0.5
        pool.wait(0.01)


def wait_for_error(pool: WorkerPool, clock: Clock) -> None:
    while True:
        pool.wait(0.1)
        wait_for_replacements(pool, clock)


def wait_for_silence(pool: WorkerPool, clock: Clock, announced: list[str]) -> None:
    """Move the clock until a silent process is replaced."""
    while not announced:
        clock.now += SILENCE_LIMIT / 3  # a longer step would count as a stop of the learner
        pool.wait(0.01)
        list(pool.take(100))


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
    time.sleep(0.1)  # time in which it could play more
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
    later = [pattern for _ in range(40) for pattern in take(pool, 2)]
    assert {worker for worker, *_ in later} == {0, 1, 2, 3}, "they play by turns"
    assert len(set(patterns + later)) == len(patterns + later)


def test_workers_that_hang_do_not_stop_the_others(make_pool: MakePool) -> None:
    """All rounds in flight may belong to workers that hang: then the limit rises."""
    pool, announced = make_pool(workers=4, slots=1, pause=0.001)
    take_slowly(pool)
    for hanging in pool.process_ids()[:2]:
        os.kill(hanging, signal.SIGSTOP)
    while {worker for worker, *_ in take(pool, 8)} != {2, 3}:
        pass
    assert {worker for worker, *_ in take(pool, 40)} == {2, 3}
    assert not announced


def test_killed_workers_are_replaced_and_no_unroll_is_torn(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=2, pause=0.001)
    patterns = take(pool, 20)
    for kill in range(4):
        os.kill(pool.process_ids()[kill % len(pool.process_ids())], signal.SIGKILL)
        while len(announced) == kill:  # the pool has not noticed it yet
            patterns += take(pool, 20)
    wait_for_replacements(pool, clock)
    patterns += take(pool, 200)
    assert len(set(patterns)) == len(patterns)
    assert pool.restarts == len(announced) == 4
    assert all("was killed by SIGKILL" in text for text in announced)
    assert {restart_index for _, restart_index, _, _ in patterns} > {0}


def test_an_exception_arrives_with_its_traceback(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, raise_after=3)
    patterns = take(pool, 12)
    assert max(restart_index for _, restart_index, _, _ in patterns) >= 1, "a delivered round resets the failures"
    assert "Traceback (most recent call last)" in announced[0]
    assert "ValueError: worker 0 raises" in announced[0]


def test_a_worker_that_always_fails_ends_the_run_with_one_sentence(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, raise_after=0)
    with pytest.raises(WorkersFailedError, match="worker 0 failed") as raised:
        wait_for_error(pool, clock)
    assert "ValueError: worker 0 raises" in str(raised.value)
    assert len(announced) == FAILURES_IN_A_ROW - 1


def test_a_worker_that_fails_again_starts_later(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, raise_after=0)
    while len(announced) < 2:
        pool.wait(0.1)
    for _ in range(5):
        pool.wait(0.01)
    assert not pool.alive
    clock.now += 0.11
    pool.wait(0.0)
    assert pool.alive


def test_more_deaths_than_the_budget_end_the_run(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, raise_after=1, restart_budget=2)
    with pytest.raises(WorkersFailedError, match="Within ten minutes, workers ended 3 times"):
        take(pool, 100)
    assert len(announced) == 2


def test_deaths_before_the_last_ten_minutes_do_not_count(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, restart_budget=1)
    for deaths in range(1, 4):
        take(pool, 1)
        os.kill(pool.process_ids()[0], signal.SIGKILL)
        while len(announced) < deaths:
            pool.wait(0.1)
        wait_for_replacements(pool, clock)
        clock.now += 601.0
    assert pool.restarts == 3


def test_kills_from_outside_do_not_count_as_failures_of_the_worker(make_pool: MakePool, clock: Clock) -> None:
    """A worker that is killed again and again before it can deliver is replaced each time."""
    pool, announced = make_pool(workers=1)
    for kill in range(FAILURES_IN_A_ROW + 1):
        wait_for_replacements(pool, clock)
        os.kill(pool.process_ids()[0], signal.SIGKILL)
        while len(announced) <= kill:
            pool.wait(0.1)
    wait_for_replacements(pool, clock)
    assert take(pool, 1)[0][:2] == (0, FAILURES_IN_A_ROW + 1)
    assert len(announced) == FAILURES_IN_A_ROW + 1


def test_a_stopped_worker_is_killed_before_its_slots_are_used_again(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, stop_after=1)
    take(pool, 2)
    stopped = psutil.Process(pool.process_ids()[0])
    wait_for_silence(pool, clock, announced)
    assert not stopped.is_running()
    assert announced == ["worker 0 is replaced: it did not respond for 60 seconds"]
    assert take(pool, 2)[0][:2] == (0, 1)


def test_a_worker_that_always_hangs_ends_the_run(make_pool: MakePool, clock: Clock) -> None:
    """The pool kills it, which is no kill from outside."""
    pool, announced = make_pool(workers=1, stop_after=0)

    def wait_for_failures(count: int) -> None:
        while len(announced) < count:
            clock.now += SILENCE_LIMIT / 3
            pool.wait(0.01)

    with pytest.raises(WorkersFailedError, match="worker 0 did not respond for 60 seconds"):
        wait_for_failures(FAILURES_IN_A_ROW)
    assert len(announced) == FAILURES_IN_A_ROW - 1


def test_time_in_which_a_worker_waits_for_a_slot_does_not_count(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, slots=1)
    while not pool.rounds_ready:
        pool.wait(0.1)
    for _ in range(6):
        clock.now += SILENCE_LIMIT / 3
        pool.wait(0.0)
    os.kill(pool.process_ids()[0], signal.SIGSTOP)
    assert len(list(pool.take(2))) == 2  # its slot is free now, and it does not answer
    clock.now += SILENCE_LIMIT / 3
    pool.wait(0.0)
    os.kill(pool.process_ids()[0], signal.SIGCONT)
    take(pool, 2)
    assert not announced


def test_time_in_which_the_learner_was_stopped_does_not_count(make_pool: MakePool, clock: Clock) -> None:
    """As after CTRL+Z and `fg`, or if the container was frozen."""
    pool, announced = make_pool(workers=1)
    take(pool, 4)
    os.kill(pool.process_ids()[0], signal.SIGSTOP)
    pool.wait(0.0)
    take(pool, pool.rounds_ready * 2)
    clock.now += 2 * SILENCE_LIMIT
    pool.wait(0.0)
    os.kill(pool.process_ids()[0], signal.SIGCONT)
    assert {restart_index for _, restart_index, _, _ in take(pool, 8)} == {0}
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
    os.kill(pool.process_ids()[1], signal.SIGKILL)
    after = take(pool, 8)
    assert [worker for worker, *_ in after] == [0, 1] * 4
    assert len(announced) == 1


def test_another_pool_continues_from_a_snapshot(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=2, slots=1, environments=3, lockstep=True)
    taken = take(pool, 8)
    snapshot = pool.snapshot(time.monotonic() + 30)
    assert snapshot is not None
    assert snapshot["snapshots"] == [{"index": 0, "count": 2}, {"index": 1, "count": 2}]
    other, _ = make_pool(workers=2, slots=1, environments=3, lockstep=True)
    other.restore(snapshot)
    restored = take(other, 4)
    assert restored == take(pool, 4)
    assert taken + restored == [(w, 0, count, e) for count in range(2) for w in range(2) for e in range(3)]
    assert take(other, 1) == [(0, 0, 2, 0)], "then its own workers play"


def test_a_worker_that_dies_before_it_is_restored_is_replaced(make_pool: MakePool) -> None:
    """Its snapshot is longer than a pipe can hold, so that sending it would block if nothing noticed the death."""
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    snapshot = {"count": 5, "screens": bytes(1_000_000)}
    pool.restore({"snapshots": [snapshot, snapshot], "unrolls": torch.empty((0, ROW_BYTES), dtype=torch.uint8)})
    assert take(pool, 4) == [(0, 1, 0, 0), (1, 0, 5, 0), (0, 1, 1, 0), (1, 0, 6, 0)]
    assert announced == ["worker 0 is replaced: it was killed by SIGKILL"]


def test_a_worker_lost_during_a_round_plays_it_again_before_a_snapshot(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True, pause=0.2)
    take(pool, 2)
    pool.wait(0.001)  # the next round starts
    os.kill(pool.process_ids()[1], signal.SIGKILL)
    snapshot = pool.snapshot(time.monotonic() + 60)
    assert snapshot is not None and len(announced) == 1
    assert snapshot["snapshots"] == [{"index": 0, "count": 2}, {"index": 1, "count": 1}]


def test_a_worker_lost_during_a_snapshot_is_replaced(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    take(pool, 2)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    assert pool.snapshot(time.monotonic() + 60) is None
    assert announced == ["worker 0 is replaced: it was killed by SIGKILL"]
    assert [worker for worker, *_ in take(pool, 4)] == [0, 1, 0, 1]


def test_a_snapshot_that_comes_too_late_is_ignored(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, slots=1, environments=1, lockstep=True, pause=0.3)
    take(pool, 1)
    assert pool.snapshot(time.monotonic() + 0.05) is None
    assert take(pool, 3) == [(0, 0, count, 0) for count in (1, 2, 3)]
    assert not announced


def test_workers_ignore_interrupts(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1)
    os.kill(pool.process_ids()[0], signal.SIGINT)  # while it starts
    take(pool, 4)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(pool.process_ids()[0], number)
        take(pool, 8)
    assert not announced


@pytest.mark.parametrize("workers_are_silent_too", [False, True])
def test_a_server_that_stops_is_replaced_with_its_workers(
    make_pool: MakePool, clock: Clock, workers_are_silent_too: bool
) -> None:
    pool, announced = make_pool(workers=2, server=SilentServer())
    take(pool, 8)
    before = pool.process_ids()
    for stopped in reversed(before) if workers_are_silent_too else before[:1]:
        os.kill(stopped, signal.SIGSTOP)
        clock.now += SILENCE_LIMIT / 3
        pool.wait(0.2)
    wait_for_silence(pool, clock, announced)
    wait_for_replacements(pool, clock)
    take(pool, pool.rounds_ready * 2)  # delivered before
    assert {restart_index for _, restart_index, _, _ in take(pool, 16)} == {1}
    assert announced == ["the inference server is replaced: it did not respond for 60 seconds"]
    assert len(pool.process_ids()) == 3 and not set(before) & set(pool.process_ids())


def test_a_server_that_always_fails_ends_the_run_with_its_traceback(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, server=SilentServer(raises=True))
    with pytest.raises(WorkersFailedError, match="the inference server failed") as raised:
        wait_for_error(pool, clock)
    assert "ValueError: the server raises" in str(raised.value)
    assert len(announced) == FAILURES_IN_A_ROW - 1


class Refusing:
    """A system that refuses to start processes after the first ones, for so many tries."""

    def __init__(self, started: int, refusals: int) -> None:
        self.started = started
        self.refusals = refusals

    def __call__(self, *arguments: Any) -> Any:
        if not self.started and self.refusals:
            self.refusals -= 1
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        self.started = max(0, self.started - 1)
        return start_process(*arguments)


def test_a_worker_that_cannot_be_started_at_first_ends_the_run_with_one_sentence(make_pool: MakePool) -> None:
    sentence = (
        r"^worker 1 could not be started \(Resource temporarily unavailable\); "
        r"a smaller --worker_count would be right\.$"
    )
    with pytest.raises(WorkersFailedError, match=sentence):
        make_pool(workers=2, start=Refusing(started=1, refusals=1))
    assert not spawned()


def test_a_replacement_that_cannot_be_started_now_is_started_later(make_pool: MakePool, clock: Clock) -> None:
    system = Refusing(started=2, refusals=3)
    pool, announced = make_pool(workers=2, start=system)
    take(pool, 20)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    while not announced:
        take(pool, 1)
    wait_for_replacements(pool, clock)
    assert clock.now >= 1000.0 + 3 * REFUSED_SECONDS
    assert [text.partition("it ")[2] for text in announced] == [
        "was killed by SIGKILL",
        "could not be started (Resource temporarily unavailable)",
    ]
    assert pool.restarts == 1


def test_workers_are_not_started_before_their_server(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, server=SilentServer(), start=Refusing(started=2, refusals=1))
    take(pool, 4)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    while len(announced) < 2:
        pool.wait(0.1)
    assert not pool.process_ids() and "the inference server is replaced later" in announced[1]
    wait_for_replacements(pool, clock)
    assert len(pool.process_ids()) == 2


def test_a_replacement_that_can_never_be_started_ends_the_run(make_pool: MakePool, clock: Clock) -> None:
    pool, _ = make_pool(workers=1, start=Refusing(started=1, refusals=REFUSALS_IN_A_ROW))
    take(pool, 4)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    while pool.alive:
        pool.wait(0.1)
    with pytest.raises(WorkersFailedError, match="worker 0 could not be started again .* 60 times in a row"):
        wait_for_replacements(pool, clock)
    assert pool.restarts == 1
