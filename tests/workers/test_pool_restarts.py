"""Processes of a pool that are killed, are stopped, raise exceptions or cannot be started."""

import errno
import os
import signal
from typing import Any

import psutil
import pytest

import processes.pool
from processes.child import start_child
from processes.pool import FAILURES_IN_A_ROW, WorkersFailedError
from tests.processes import spawned, wait_until_gone
from tests.workers.pattern_worker import SilentServer
from tests.workers.pools import (
    SILENCE_LIMIT,
    Clock,
    MakePool,
    take,
    wait_for_error,
    wait_for_replacements,
    wait_for_silence,
)
from workers.worker_pool import WorkerPool

pytestmark = pytest.mark.slow


def test_killed_workers_are_replaced_and_no_unroll_is_torn(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=2, pause=0.001)
    patterns = take(pool, 20)
    for kill in range(4):
        os.kill(pool.children.process_ids()[kill % len(pool.children.process_ids())], signal.SIGKILL)
        while len(announced) == kill:  # the pool has not noticed it yet
            patterns += take(pool, 20)
    wait_for_replacements(pool, clock)
    patterns += take(pool, 200)
    assert len(set(patterns)) == len(patterns)
    assert pool.children.restarts == len(announced) == 4
    assert all("was killed by SIGKILL" in text for text in announced)
    assert {restart_index for _, restart_index, _, _ in patterns} > {0}


def test_a_killed_worker_is_noticed_though_a_child_that_it_forked_keeps_its_pipe_open(make_pool: MakePool) -> None:
    """The pool's clock stands still, so that no silence is noticed."""
    pool, announced = make_pool(workers=1, forks=True)
    take(pool, 3)
    (worker,) = pool.children.process_ids()
    children = psutil.Process(worker).children()
    os.kill(worker, signal.SIGKILL)
    while not announced:
        pool.wait(0.1)
    assert "was killed by SIGKILL" in announced[0]
    assert children
    wait_until_gone(*(child.pid for child in children))


def test_a_signal_without_a_name_has_its_number(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1)
    take(pool, 1)
    os.kill(pool.children.process_ids()[0], signal.SIGRTMIN + 5)
    while not announced:
        pool.wait(0.1)
    assert announced == [f"worker 0 is replaced: it was killed by signal {signal.SIGRTMIN + 5}"]


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
    assert f"It ended {FAILURES_IN_A_ROW} times in a row before it delivered anything" in str(raised.value)
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
    sentence = r"processes of the run ended 3 times, more often than --worker_restart_budget=2 allows\.$"
    with pytest.raises(WorkersFailedError, match=sentence):
        take(pool, 100)
    assert len(announced) == 2


def test_deaths_of_long_ago_do_not_count(make_pool: MakePool, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.pool, "DEATHS_WINDOW", 30.0)  # less than a worker may be silent
    pool, announced = make_pool(workers=1, restart_budget=1)
    for deaths in range(1, 4):
        take(pool, 1)
        os.kill(pool.children.process_ids()[0], signal.SIGKILL)
        while len(announced) < deaths:
            pool.wait(0.1)
        wait_for_replacements(pool, clock)
        clock.now += 31.0
    assert pool.children.restarts == 3


def test_kills_from_outside_do_not_count_as_failures_of_the_worker(make_pool: MakePool, clock: Clock) -> None:
    """A worker that is killed again and again before it can deliver is replaced each time."""
    pool, announced = make_pool(workers=1)
    for kill in range(FAILURES_IN_A_ROW + 1):
        wait_for_replacements(pool, clock)
        os.kill(pool.children.process_ids()[0], signal.SIGKILL)
        while len(announced) <= kill:
            pool.wait(0.1)
    wait_for_replacements(pool, clock)
    delivered = take(pool, 1)[0]
    while delivered[1] <= FAILURES_IN_A_ROW:  # on a busy machine, a worker may have delivered before it was killed
        delivered = take(pool, 1)[0]
    assert delivered[:2] == (0, FAILURES_IN_A_ROW + 1)
    assert len(announced) == FAILURES_IN_A_ROW + 1


def wait_for_stopped_worker(pool: WorkerPool) -> psutil.Process:
    """The only worker of the pool, once it has stopped itself after its first round."""
    take(pool, 2)
    stopped = psutil.Process(pool.children.process_ids()[0])
    while stopped.status() != psutil.STATUS_STOPPED:
        pool.wait(0.01)
    return stopped


def test_a_stopped_worker_is_killed_before_its_slots_are_used_again(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, stop_after=1)
    stopped = wait_for_stopped_worker(pool)
    wait_for_silence(pool, clock, announced)
    assert not stopped.is_running()
    assert announced == ["worker 0 is replaced: it did not respond for 60 seconds"]
    assert take(pool, 2)[0][:2] == (0, 1)


def test_a_stopped_worker_is_noticed_while_updates_take_long(make_pool: MakePool, clock: Clock) -> None:
    """Each update takes longer than half of the silence limit."""
    pool, announced = make_pool(workers=1, stop_after=1)
    wait_for_stopped_worker(pool)
    for _ in range(3):
        clock.now += 0.6 * SILENCE_LIMIT
        pool.wait(0.01)
        list(pool.take(100))
    assert announced == ["worker 0 is replaced: it did not respond for 60 seconds"]


@pytest.mark.parametrize("workers_are_silent_too", [False, True])
def test_a_server_that_stops_is_replaced_with_its_workers(
    make_pool: MakePool, clock: Clock, workers_are_silent_too: bool
) -> None:
    pool, announced = make_pool(workers=2, server=SilentServer())
    take(pool, 8)
    before = pool.children.process_ids()
    for stopped in reversed(before) if workers_are_silent_too else before[:1]:
        os.kill(stopped, signal.SIGSTOP)
        clock.now += SILENCE_LIMIT / 3
        pool.wait(0.2)
    wait_for_silence(pool, clock, announced)
    wait_for_replacements(pool, clock)
    take(pool, pool.rounds_ready * 2)  # delivered before
    assert {restart_index for _, restart_index, _, _ in take(pool, 16)} == {1}
    assert announced == ["the inference server is replaced: it did not respond for 60 seconds"]
    assert len(pool.children.process_ids()) == 3 and not set(before) & set(pool.children.process_ids())


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
        return start_child(*arguments)


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
    os.kill(pool.children.process_ids()[0], signal.SIGKILL)
    while not announced:
        take(pool, 1)
    wait_for_replacements(pool, clock)
    assert announced == [
        "worker 0 is replaced: it was killed by SIGKILL",
        "worker 0 could not be started again (Resource temporarily unavailable), and is tried again",
    ]
    assert pool.children.restarts == 4


def test_a_replacement_that_can_never_be_started_ends_the_run(make_pool: MakePool, clock: Clock) -> None:
    pool, _ = make_pool(workers=1, restart_budget=9, start=Refusing(started=1, refusals=9))
    take(pool, 4)
    os.kill(pool.children.process_ids()[0], signal.SIGKILL)
    while pool.alive:
        pool.wait(0.1)
    with pytest.raises(WorkersFailedError, match="worker 0 could not be started again .*\n.* ended 10 times"):
        wait_for_replacements(pool, clock)


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
    os.kill(pool.children.process_ids()[0], signal.SIGSTOP)
    assert len(list(pool.take(2))) == 2  # its slot is free now, and it does not answer
    clock.now += SILENCE_LIMIT / 3
    pool.wait(0.0)
    os.kill(pool.children.process_ids()[0], signal.SIGCONT)
    take(pool, 2)
    assert not announced


def test_workers_are_not_started_before_their_server(make_pool: MakePool, clock: Clock) -> None:
    pool, announced = make_pool(workers=1, server=SilentServer(), start=Refusing(started=2, refusals=1))
    take(pool, 4)
    os.kill(pool.children.process_ids()[0], signal.SIGKILL)
    while len(announced) < 2:
        pool.wait(0.1)
    assert not pool.children.process_ids() and "the inference server could not be started again" in announced[1]
    wait_for_replacements(pool, clock)
    assert len(pool.children.process_ids()) == 2
