"""The schedule acts when the simulation of the same rule with the same inference times does."""

import math

import numpy as np
import pytest

from realtime.simulation import simulate
from realtime.staggering import RULES, new_state
from workers.realtime.inference_schedule import EFFECT, LATEST_START, START, InferenceSchedule


def played(rule: str, times: np.ndarray, frame: float) -> tuple[list[float], list[float]]:
    """When actions take effect, and how old their observations are then, until a process has used all its times."""
    processes, count = times.shape
    schedule = InferenceSchedule(RULES[rule](new_state(processes), frame))
    for process in range(processes):
        schedule.joined(process, 0.0)
    finishes: dict[int, float] = {}
    started, done = [0.0] * processes, [0] * processes
    effects, ages = [], []
    while True:
        process = min(finishes, key=finishes.__getitem__, default=-1)
        if finishes.get(process, math.inf) <= schedule.next_due[0]:
            assert schedule.finished(process, finishes[process]) == pytest.approx(times[process, done[process]])
            del finishes[process]
            done[process] += 1
            continue
        event = schedule.take(schedule.next_due[0])
        if event.kind == START:
            started[event.process] = event.time
            finishes[event.process] = event.time + times[event.process, done[event.process]]
        else:
            assert event.kind == EFFECT
            effects.append(event.time)
            ages.append(event.time - started[event.process])
            if done[event.process] == count:
                return effects, ages


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("processes", [1, 2, 7, 100])
@pytest.mark.parametrize("frame", [0.0, 0.3])
def test_actions_take_effect_as_in_the_simulation(rule: str, processes: int, frame: float) -> None:
    times = np.random.default_rng(processes).lognormal(0.0, 0.5, (processes, 20))
    expected = simulate(rule, times, frame)
    effects, ages = played(rule, times, frame)
    np.testing.assert_allclose(effects, expected.times, rtol=1e-12)
    np.testing.assert_allclose(ages, expected.ages, rtol=1e-9, atol=1e-12)


def test_a_lost_process_does_nothing_until_it_joins_again() -> None:
    schedule = InferenceSchedule(RULES["none"](new_state(3), 0.0))
    for process in range(3):
        schedule.joined(process, 0.0)
    assert [schedule.take(0.0).process for _ in range(3)] == [0, 1, 2]
    schedule.finished(1, 2.0)
    schedule.finished(2, 2.5)
    for process in (0, 1):  # one that runs, and one whose action has not taken effect
        schedule.lost(process)
    event = schedule.take(2.5)
    assert (event.time, event.kind, event.process) == (2.5, EFFECT, 2)
    assert schedule.next_due == (2.5, START)
    schedule.lost(2)
    assert schedule.next_due[0] == math.inf
    schedule.joined(1, 4.0)
    event = schedule.take(4.0)
    assert (event.time, event.kind, event.process) == (4.0, START, 1)


@pytest.mark.parametrize("rule", RULES)
def test_a_stop_of_the_worker_is_no_part_of_an_inference(rule: str) -> None:
    """One inference runs when the worker is stopped for ten minutes, another one should have started meanwhile."""
    staggering = RULES[rule](new_state(2), 0.0)
    schedule = InferenceSchedule(staggering)
    schedule.joined(0, 0.0)
    schedule.take(0.0)
    schedule.joined(1, 0.2)
    schedule.stopped(600.0, 600.1)
    assert schedule.finished(0, 600.3) == pytest.approx(0.3)
    assert schedule.take(600.3).kind == START
    assert schedule.finished(1, 600.8) == pytest.approx(0.5)
    assert staggering.longest == pytest.approx(0.5)


def test_a_start_that_is_a_little_late_counts_from_its_time_in_the_schedule() -> None:
    schedule = InferenceSchedule(RULES["mean"](new_state(1), 0.0))
    schedule.joined(0, 5.0)
    schedule.take(5.0 + LATEST_START / 2)
    assert schedule.finished(0, 6.0) == 1.0
