"""Real processes, killed in every way that there is."""

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
from workers.inference_server import InferenceServer
from workers.restarts import FAILURES_IN_A_ROW
from workers.slots import Slots
from workers.worker_pool import WorkerPool

MakePool = Callable[..., tuple[WorkerPool, list[str]]]


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    pools = []

    def make(
        workers: int = 2,
        slots: int = 2,
        environments: int = 2,
        lockstep: bool = False,
        silence_limit: float = 60.0,
        restart_budget: int = 100,
        server: SilentServer | None = None,
        **behaviour: float,
    ) -> tuple[WorkerPool, list[str]]:
        memory = Slots(workers, slots, environments, ROW_BYTES)
        announced: list[str] = []
        pool = WorkerPool(
            partial(PatternWorker, memory, **behaviour),  # type: ignore[arg-type]
            memory,
            announced.append,
            lockstep=lockstep,
            silence_limit=silence_limit,
            restart_budget=restart_budget,
            server=cast(InferenceServer | None, server),
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
    while len(pool._delivered) < 2:
        pool.wait(0.0)
    time.sleep(0.3)  # all the time in the world to run ahead
    pool.wait(0.0)
    assert len(list(pool.take(100))) == 2


def take_slowly(pool: WorkerPool) -> list[tuple[int, int, int, int]]:
    """Rounds, each once all that are under way are there, until no more than two are."""
    patterns = []
    for _ in range(100):
        while not pool.rounds_under_way or len(pool._delivered) < pool.rounds_under_way:
            pool.wait(0.0)
            time.sleep(0.001)
        patterns += take(pool, 2)
    assert pool.rounds_under_way <= 2
    return patterns


def test_workers_that_the_learner_does_not_need_rest_by_turns(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=4, slots=2, environments=2)
    patterns = take_slowly(pool)
    later = [pattern for _ in range(40) for pattern in take(pool, 2)]
    assert {worker for worker, *_ in later} == {0, 1, 2, 3}
    assert len(set(patterns + later)) == len(patterns + later)


def test_workers_that_hang_hold_nobody_up(make_pool: MakePool) -> None:
    """As many rounds as were to be under way are theirs, and never come: then there are more."""
    pool, announced = make_pool(workers=4, slots=1, pause=0.001)
    take_slowly(pool)
    for hanging in pool.process_ids()[:2]:
        os.kill(hanging, signal.SIGSTOP)
    while {worker for worker, *_ in take(pool, 8)} != {2, 3}:
        pass
    assert {worker for worker, *_ in take(pool, 40)} == {2, 3}
    assert not announced


def test_killed_workers_are_replaced_and_no_unroll_is_torn(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, pause=0.001)
    patterns = take(pool, 20)
    for kill in range(4):
        os.kill(pool.process_ids()[kill % len(pool.process_ids())], signal.SIGKILL)
        while len(announced) == kill:  # until it is noticed, the same one could be killed again
            patterns += take(pool, 20)
    while pool.alive < 2:
        pool.wait(0.1)
    patterns += take(pool, 200)
    assert len(set(patterns)) == len(patterns)
    assert pool.restarts == len(announced) == 4
    assert all("was killed by SIGKILL" in text for text in announced)
    assert {incarnation for _, incarnation, _, _ in patterns} > {0}


def test_an_exception_arrives_with_its_traceback(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, raise_after=3)
    patterns = take(pool, 12)
    assert max(incarnation for _, incarnation, _, _ in patterns) >= 1, "delivering resets the count of failures"
    assert "Traceback (most recent call last)" in announced[0]
    assert "ValueError: worker 0 has had enough" in announced[0]


def test_a_worker_that_always_fails_ends_the_run_in_one_sentence(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, raise_after=0)
    with pytest.raises(WorkersFailedError, match="worker 0 failed") as raised:
        take(pool, 1)
    assert "has had enough" in str(raised.value)
    assert len(announced) == FAILURES_IN_A_ROW - 1


def test_more_deaths_than_the_budget_end_the_run(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, raise_after=1, restart_budget=2)
    with pytest.raises(WorkersFailedError, match="Within ten minutes, workers ended 3 times"):
        take(pool, 100)
    assert len(announced) == 2


def test_kills_from_outside_hardly_count(make_pool: MakePool) -> None:
    """Killed again and again before it can deliver, a worker is started again and again."""
    pool, announced = make_pool(workers=1)
    for kill in range(FAILURES_IN_A_ROW + 1):
        while not pool.alive:
            pool.wait(0.1)
        os.kill(pool.process_ids()[0], signal.SIGKILL)
        while len(announced) <= kill:
            pool.wait(0.1)
    assert take(pool, 1)[0][:2] == (0, FAILURES_IN_A_ROW + 1)
    assert len(announced) == FAILURES_IN_A_ROW + 1


def test_a_stopped_worker_is_killed_before_its_place_is_given_away(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, stop_after=1)
    take(pool, 2)
    stopped = psutil.Process(pool.process_ids()[0])
    pool._silence_limit = 0.2  # only now: starting a process may well take longer
    while not announced:
        pool.wait(0.05)
    pool._silence_limit = 60.0
    assert not stopped.is_running()
    assert "no sign of life" in announced[0]
    assert take(pool, 2)[0][:2] == (0, 1)


def test_time_in_which_the_learner_itself_was_stopped_does_not_count(make_pool: MakePool) -> None:
    """As after CTRL+Z and `fg`, or where the whole container was frozen."""
    pool, announced = make_pool(workers=1)
    take(pool, 4)
    os.kill(pool.process_ids()[0], signal.SIGSTOP)
    pool.wait(0.0)
    take(pool, len(pool._delivered) * 2)
    pool._silence_limit = 1.0
    time.sleep(2.0)
    pool.wait(0.0)
    pool._silence_limit = 60.0
    os.kill(pool.process_ids()[0], signal.SIGCONT)
    assert {incarnation for _, incarnation, _, _ in take(pool, 8)} == {0}
    assert not announced


def test_lockstep_takes_rounds_in_the_order_of_the_places(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=3, slots=1, environments=2, lockstep=True)
    expected = [(w, 0, count, e) for count in range(10) for w in range(3) for e in range(2)]
    assert take(pool, 60, limit=4) == expected


def test_lockstep_workers_play_only_while_the_learner_waits(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=2, slots=1, environments=1, lockstep=True, pause=0.3)
    take(pool, 2)
    for _ in range(2):
        pool.wait(0.0)
        time.sleep(0.6)
    assert not list(pool.take(2))
    assert len(take(pool, 2)) == 2, "now it waits"


def test_lockstep_goes_on_after_a_kill(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    take(pool, 4)
    os.kill(pool.process_ids()[1], signal.SIGKILL)
    after = take(pool, 8)
    assert [worker for worker, *_ in after] == [0, 1] * 4
    assert len(announced) == 1


def test_what_is_in_flight_can_be_put_back(make_pool: MakePool) -> None:
    pool, _ = make_pool(workers=2, slots=1, environments=3, lockstep=True)
    taken = take(pool, 8)
    in_flight = pool.in_flight(time.monotonic() + 30)
    assert in_flight is not None
    assert in_flight["snapshots"] == [{"index": 0, "count": 2}, {"index": 1, "count": 2}]
    other, _ = make_pool(workers=2, slots=1, environments=3, lockstep=True)
    other.put_back(in_flight)
    put_back = take(other, 4)
    assert put_back == take(pool, 4)
    assert taken + put_back == [(w, 0, count, e) for count in range(2) for w in range(2) for e in range(3)]
    assert take(other, 1) == [(0, 0, 2, 0)], "then its own workers go on"


def test_a_worker_that_dies_before_it_can_go_on_is_replaced(make_pool: MakePool) -> None:
    """What it is to go on from is more than a pipe holds, and nobody reads it any more."""
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    snapshot = {"count": 5, "screens": bytes(1_000_000)}
    pool.put_back({"snapshots": [snapshot, snapshot], "unrolls": torch.empty((0, ROW_BYTES), dtype=torch.uint8)})
    assert take(pool, 4) == [(0, 1, 0, 0), (1, 0, 5, 0), (0, 1, 1, 0), (1, 0, 6, 0)]
    assert announced == ["worker 0 is replaced: it was killed by SIGKILL"]


def test_a_worker_lost_in_a_round_plays_it_again_before_a_snapshot(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=2, slots=1, environments=1, lockstep=True, pause=0.3)
    take(pool, 2)
    pool.wait(0.001)  # the next round begins
    os.kill(pool.process_ids()[1], signal.SIGKILL)
    in_flight = pool.in_flight(time.monotonic() + 60)
    assert in_flight is not None and len(announced) == 1
    assert in_flight["snapshots"] == [{"index": 0, "count": 2}, {"index": 1, "count": 1}]


def test_a_snapshot_that_comes_too_late_does_no_harm(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, slots=1, environments=1, lockstep=True, pause=0.6)
    take(pool, 1)
    assert pool.in_flight(time.monotonic() + 0.05) is None
    assert take(pool, 3) == [(0, 0, count, 0) for count in (1, 2, 3)]
    assert not announced


def test_workers_that_find_no_room_at_the_start_end_the_run_in_a_sentence(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []

    def start(worker: PatternWorker, *arguments: Any) -> Any:
        if started:
            raise OSError(errno.EMFILE, "Too many open files")
        started.append(start_process(worker, *arguments))
        return started[-1]

    monkeypatch.setattr("workers.worker_pool.start_process", start)
    sentence = r"^worker 1 could not be started \(Too many open files\); a smaller --worker_count would be right\.$"
    with pytest.raises(WorkersFailedError, match=sentence):
        make_pool(workers=2)
    assert started and not spawned()


def test_workers_ignore_interrupts(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1)
    os.kill(pool.process_ids()[0], signal.SIGINT)  # while it starts
    take(pool, 4)
    os.kill(pool.process_ids()[0], signal.SIGINT)
    take(pool, 20)
    assert not announced


@pytest.mark.parametrize("workers_fall_silent_first", [False, True])
def test_a_server_that_stops_is_replaced_with_its_workers(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, workers_fall_silent_first: bool
) -> None:
    monkeypatch.setattr("workers.worker_pool.SIGN_OF_LIFE_SECONDS", 0.1)
    pool, announced = make_pool(workers=2, server=SilentServer())
    take(pool, 8)
    before = pool.process_ids()
    for stopped in reversed(before) if workers_fall_silent_first else before[:1]:
        os.kill(stopped, signal.SIGSTOP)
        if workers_fall_silent_first:
            pool.wait(0.4)
    pool._silence_limit = 1.0
    while not announced:
        take(pool, 1)
    pool._silence_limit = 60.0
    take(pool, 16)  # of what was delivered before
    assert {incarnation for _, incarnation, _, _ in take(pool, 16)} == {1}
    assert announced == ["the inference server is replaced: it gave no sign of life for 1 seconds"]
    assert len(pool.process_ids()) == 3 and not set(before) & set(pool.process_ids())


def test_a_server_that_always_fails_ends_the_run_with_its_traceback(make_pool: MakePool) -> None:
    pool, announced = make_pool(workers=1, server=SilentServer(raises=True))
    with pytest.raises(WorkersFailedError, match="the inference server failed") as raised:
        take(pool, 1_000_000)
    assert "ValueError: the server has had enough" in str(raised.value)
    assert len(announced) == FAILURES_IN_A_ROW - 1


def test_a_worker_that_cannot_be_started_just_now_is_started_later(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, announced = make_pool(workers=2)
    take(pool, 20)
    refusals = 3

    def start(*arguments: Any) -> Any:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return start_process(*arguments)

    monkeypatch.setattr("workers.restarts.REFUSED_SECONDS", 0.01)
    monkeypatch.setattr("workers.worker_pool.start_process", start)
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    while refusals or pool.alive < 2:
        take(pool, 1)
    assert [text.partition("it ")[2] for text in announced] == [
        "was killed by SIGKILL",
        "could not be started (Resource temporarily unavailable)",
    ]
    assert pool.restarts == 1


def test_workers_that_can_never_be_started_again_end_the_run(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, _ = make_pool(workers=1)
    take(pool, 4)
    monkeypatch.setattr("workers.restarts.REFUSED_SECONDS", 0.01)
    monkeypatch.setattr("workers.worker_pool.start_process", lambda *_: os.open("/no/such/file", 0))
    os.kill(pool.process_ids()[0], signal.SIGKILL)
    with pytest.raises(WorkersFailedError, match="worker 0 could not be started again .* 60 times in a row"):
        take(pool, 10**6)
    assert pool.restarts == 1
