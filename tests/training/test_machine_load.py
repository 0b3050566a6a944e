"""How a run uses the machine, measured with fake clocks."""

import os
import time
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
import torch

from training.machine_load import MachineLoad, memory_in_use
from workers.shared_array import CPU, ENVIRONMENT, WAITING, SharedArray, make_times
from workers.worker_pool import WorkerPool


class NoWorkers:
    children = SimpleNamespace(process_ids=list)


def reported(machine_load: MachineLoad, speed: float = 0.0) -> dict[str, Any]:
    """The figures of a report, after which a new interval begins."""
    load: dict[str, Any] = machine_load.figures(speed)
    machine_load.begin_interval()
    return load


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    clocks = {"wall": 100.0, "cpu": 5.0}
    monkeypatch.setattr(time, "monotonic", lambda: clocks["wall"])
    monkeypatch.setattr(time, "process_time", lambda: clocks["cpu"])
    return clocks


def make_machine_load(times: SharedArray, device: str = "cpu") -> MachineLoad:
    return MachineLoad(times, cast(WorkerPool, NoWorkers()), torch.device(device))


def test_figures_are_of_the_time_since_the_last_report(
    clocks: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = make_times(2)
    machine_load = make_machine_load(times)
    assert set(reported(machine_load)["worker_time_shares"].values()) == {None}
    clocks |= {"wall": 110.0, "cpu": 12.0}
    times.array[0, [ENVIRONMENT, WAITING, CPU]] = 6.0, 2.0, 9.0
    times.array[1, [ENVIRONMENT, WAITING, CPU]] = 0.0, 2.0, 6.0
    load = reported(machine_load, speed=1100.0)
    assert load["core_seconds_per_1000_frames"] == pytest.approx(2.0)
    assert load["cpu_learner"] == pytest.approx(70)
    assert load["cpu_workers"] == pytest.approx(150)
    shares = {"environment": 0.6, "inference": 0.0, "waiting": 0.4, "weights": 0.0, "rest": 0.0}
    assert load["worker_time_shares"] == pytest.approx(shares)
    assert load["gpu_utilization"] is None and load["gpu_memory_mb"] is None
    clocks |= {"wall": 120.0, "cpu": 13.0}
    times.array[0, [WAITING, CPU]] += 10.0, 1.0
    load = reported(machine_load)
    assert load["cpu_learner"] == pytest.approx(10)
    assert load["cpu_workers"] == pytest.approx(10)
    assert load["worker_time_shares"]["waiting"] == 1.0
    assert machine_load.worker_shares()["environment"] == pytest.approx(0.3), "since the start"
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(psutil, "cpu_percent", lambda: 90.0)
    ours = (8 + 16) / 20 / 2
    assert machine_load.cores_in_use(2) == pytest.approx((ours, 0.9 - ours))
    assert machine_load.cores_in_use(1) == (1.0, 0.0), "what others use of one core is not known"


def test_a_living_worker_stands_for_all() -> None:
    ended = 2**22 + 1
    learner, workers = memory_in_use([ended, os.getpid()])
    assert learner == pytest.approx(psutil.Process().memory_info().rss / 1e6, rel=0.2)
    assert 0 < workers <= 2 * learner * 1.2
    assert memory_in_use([ended])[1] == 0
