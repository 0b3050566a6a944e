"""The schedule acts when the simulation of the same rule with the same inference times does."""

import math

import numpy as np
import pytest

from tests.workers.realtime.simulation import simulate
from workers.realtime.schedule import EFFECT, LATEST_START, RULES, START, FrameClock, InferenceSchedule


def played(rule: str, times: np.ndarray, frame: float) -> tuple[list[float], list[float]]:
    """When actions take effect, and how old their observations are then, until a process has used all its times."""
    processes, count = times.shape
    schedule = InferenceSchedule(RULES[rule](processes, frame))
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
    schedule = InferenceSchedule(RULES["none"](3))
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


@pytest.mark.parametrize(("late", "counted"), [(LATEST_START / 2, 3.0), (2 * LATEST_START, 1.0)])
def test_a_start_that_is_a_little_late_counts_from_its_time_in_the_schedule(late: float, counted: float) -> None:
    schedule = InferenceSchedule(RULES["mean"](1))
    schedule.joined(0, 5.0)
    schedule.take(5.0 + late)
    assert schedule.finished(0, 8.0) == counted


@pytest.mark.parametrize("fps", [60.0, 59.94, 7.0])
def test_frames_do_not_drift_in_an_hour(fps: float) -> None:
    """Each frame is played some time after it was due, and the last one of the hour is still due in time."""
    clock = FrameClock(1000.0, fps)
    for k in range(round(3600 * fps)):
        assert clock.due == pytest.approx(1000 + k / fps, abs=1e-9)
        assert not clock.play(clock.due + 0.8 / fps)


def test_frames_that_are_late_are_missed_and_none_is_skipped() -> None:
    clock = FrameClock(0.0, 10.0)
    assert not clock.play(0.0)
    played = []
    while clock.due <= 0.55:  # after a pause of half a second
        due = round(clock.due, 9)
        played.append((due, clock.play(0.55)))
    assert played == [(0.1, True), (0.2, True), (0.3, True), (0.4, True), (0.5, False)]
    assert clock.due == pytest.approx(0.6)
