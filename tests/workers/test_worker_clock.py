"""The measured times reach shared memory, add up, and include those of replaced workers."""

import itertools
import time

import numpy as np
import pytest

from workers.shared_array import COLUMNS, CPU, ENVIRONMENT, INFERENCE, WAITING, WorkerClock, make_times


def test_each_lap_adds_the_time_since_the_last_one_to_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 13.0, 13.5, 14.0, 20.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    cpu = iter([1.5, 2.0])
    monkeypatch.setattr(time, "process_time", lambda: next(cpu))
    seconds = np.zeros(COLUMNS)
    clock = WorkerClock(seconds)
    clock.lap(ENVIRONMENT)
    clock.lap(INFERENCE)
    assert not seconds.any(), "only `share` writes to shared memory"
    clock.lap(ENVIRONMENT)
    clock.share()
    assert seconds.tolist() == [3.5, 0.5, 0.0, 0.0, 0.0, 1.5]
    clock.lap(WAITING)
    clock.share()
    assert seconds.tolist() == [3.5, 0.5, 6.0, 0.0, 0.0, 2.0]


def test_a_replacement_adds_to_its_predecessors_times() -> None:
    times = make_times(2)
    totals = [times.array.sum(axis=0)]
    for worker in (0, 1, 0):
        clock = WorkerClock(times.array[worker])
        clock.lap(ENVIRONMENT)
        clock.share()
        totals.append(times.array.sum(axis=0))
    assert all((later >= earlier).all() for earlier, later in itertools.pairwise(totals))
    assert totals[-1][ENVIRONMENT] > totals[-2][ENVIRONMENT]
    assert totals[-1][CPU] > 0
