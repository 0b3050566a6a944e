"""The rules, by simulations of 2 to 1,000 processes: intervals, ages, order, and a state that needs no lock."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.realtime.event_list import slow_simulation
from tests.workers.realtime.simulation import Actions, Times, measure, simulate
from workers.realtime.schedule import RULES, MaxStaggering, MeanStaggering, needed_processes
from workers.realtime.timing import parse_latency

PROCESSES = [2, 3, 10, 100, 1000]
MODELS = ["fixed:50", "uniform:20:80", "lognormal:50:0.5", "measured:40,41,43,45,95"]


def drawn(model: str, processes: int, count: int) -> Times:
    """Inference times [N, K]."""
    return np.random.default_rng(0).choice(parse_latency(model), (processes, count))


def intervals_after_the_longest(actions: Actions, inference_times: Times, frame: float) -> Times:
    """The intervals from two cycles after the longest inference time was seen; by `max`, actions are that old then."""
    longest = inference_times.max()
    seen = actions.times[actions.ages >= longest * (1 - 1e-9)][0]
    cycle = max(longest, len(inference_times) * frame)
    return np.diff(actions.times[actions.times > seen + 2 * cycle])


@pytest.mark.parametrize("frame", [0.0, 1000 / 60])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("processes", PROCESSES)
def test_all_intervals_are_the_longest_time_over_n_or_a_frame_once_it_was_seen(
    processes: int, model: str, frame: float
) -> None:
    times = drawn(model, processes, 7)
    times[0, 0] = times.max()
    intervals = intervals_after_the_longest(simulate("max", times, frame), times, frame)
    assert len(intervals) >= processes - 1
    np.testing.assert_allclose(intervals, max(times.max() / processes, frame), rtol=1e-6)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_interval_exceeds_the_bound_wherever_the_longest_time_occurs(data: st.DataObject) -> None:
    processes = data.draw(st.integers(1, 6))
    row = st.lists(st.floats(20.0, 100.0), min_size=6, max_size=6)
    times = np.tile(data.draw(st.lists(row, min_size=processes, max_size=processes)), 12)
    place = data.draw(st.integers(0, processes - 1)), data.draw(st.integers(0, 5))
    times[place] = longest = times.max() * data.draw(st.floats(1.0, 3.0))
    frame = data.draw(st.sampled_from([0.0, 10.0, 90.0]))
    actions = simulate("max", times, frame)
    intervals = intervals_after_the_longest(actions, times, frame)
    assert len(intervals) > 0
    np.testing.assert_allclose(intervals, max(longest / processes, frame), rtol=1e-6)
    assert actions.ages.max() <= longest * (1 + 1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("frame", [0.0, 4.0, 30.0])
@pytest.mark.parametrize("model", ["fixed:50", "uniform:20:80", "lognormal:50:0.5"])
@pytest.mark.parametrize("processes", [1, 2, 7])
def test_a_slow_simulation_gives_the_same_actions(rule: str, frame: float, model: str, processes: int) -> None:
    times = drawn(model, processes, 20)
    np.testing.assert_allclose(simulate(rule, times, frame).times, slow_simulation(rule, times, frame), rtol=1e-9)


# --- The mean ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["uniform:20:80", "lognormal:50:0.3"])
@pytest.mark.parametrize("processes", [2, 10, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_spacing_by_the_mean_acts_more_often_and_less_evenly_than_by_the_longest_time(
    model: str, processes: int
) -> None:
    times = drawn(model, processes, 24)
    times[0, 0] = times.max()
    timing = {rule: measure(simulate(rule, times), frame=1.0, since=3 * times.max()) for rule in RULES}
    spacing = times.mean() / processes
    mean, longest, none = timing["mean"], timing["max"], timing["none"]
    assert 0.98 * spacing <= mean.interval_mean <= (1 + 0.6 / processes**0.5) * spacing
    assert mean.interval_mean < longest.interval_mean
    assert mean.age_mean < longest.age_mean
    assert longest.interval_deviation / longest.interval_mean < mean.interval_deviation / mean.interval_mean
    assert mean.interval_deviation < 0.7 * none.interval_deviation


@pytest.mark.parametrize("rule", ["max", "mean"])
@pytest.mark.parametrize("processes", PROCESSES)
def test_both_rules_are_perfectly_even_if_all_inferences_take_the_same_time(rule: str, processes: int) -> None:
    actions = simulate(rule, drawn("fixed:50", processes, 5))
    np.testing.assert_allclose(np.diff(actions.times)[processes:], 50 / processes, rtol=1e-6)


def test_without_staggering_processes_of_the_same_speed_act_at_once() -> None:
    timing = measure(simulate("none", drawn("fixed:50", 5, 10)), frame=10.0)
    assert timing.rate > 4 * timing.used_rate
    assert timing.interval_max == 50


# --- Frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inference_time", "frame", "processes"), [(50, 20, 3), (40, 20, 2), (10, 20, 1), (0, 20, 1), (5 * 0.1, 0.1, 5)]
)
def test_as_many_processes_are_needed_as_an_inference_has_frames(
    inference_time: float, frame: float, processes: int
) -> None:
    assert needed_processes(inference_time, frame) == processes


@pytest.mark.parametrize("model", MODELS)
def test_so_many_processes_miss_no_frame_and_one_less_does(model: str) -> None:
    times = drawn(model, 50, 8)
    times[0, 0] = times.max()
    needed = needed_processes(times.max(), frame=9.0)
    since = 4 * times.max()
    assert measure(simulate("max", times[:needed], 9.0), 9.0, since).missed == 0
    assert measure(simulate("max", times[: needed - 1], 9.0), 9.0, since).missed > 0


def test_more_processes_than_needed_wait_before_they_look_and_not_after() -> None:
    times = drawn("uniform:20:80", 100, 12)
    timing = {rule: measure(simulate(rule, times, frame=10.0), 10.0, since=3000) for rule in ("max", "mean")}
    assert timing["max"].missed == 0
    assert timing["max"].age_mean == pytest.approx(times.max(), rel=0.01)
    assert timing["mean"].missed < 0.01
    assert timing["mean"].age_mean < 1.5 * times.mean()


# --- Order and delays -------------------------------------------------------------------------------------------------


def test_by_the_longest_time_actions_have_one_age_and_the_order_of_their_observations() -> None:
    times = drawn("uniform:20:80", 10, 20)
    times[0, 0] = 80
    actions = simulate("max", times)
    later = actions.times > 200
    np.testing.assert_allclose(actions.ages[later], 80)
    assert np.all(np.diff((actions.times - actions.ages)[later]) > 0)


def test_a_delay_is_passed_on_to_the_other_processes() -> None:
    rule = MaxStaggering(2)
    assert [rule.next_start(0.0) for _ in (0, 1)] == [0, 0]
    assert [rule.finished(0.0, 10.0) for _ in (0, 1)] == [10, 10]
    assert [rule.next_start(10.0) for _ in (0, 1)] == [10, 15]
    assert rule.finished(15.0, 18.0) == 25
    assert rule.finished(10.0, 34.0) == 34  # 14 later than expected
    assert rule.next_start(25.0) == 15 + 24 / 2
    assert rule.next_start(34.0) == 27 + 24 / 2
    assert rule.finished(27.0, 30.0) == 27 + 24
    assert rule.next_start(51.0) == 39 + 24 / 2


def test_a_process_that_takes_the_place_of_another_gets_a_slot_of_its_own() -> None:
    rule = MaxStaggering(2)
    for _ in (0, 1):
        rule.next_start(0.0)
        rule.finished(0.0, 10.0)
    assert rule.next_start(10.0) == 10
    assert rule.next_start(12.0) == 15


def test_no_action_is_held_longer_than_a_cycle_of_all_processes() -> None:
    rule = MeanStaggering(4)
    assert [rule.finished(0.0, 40.0) for _ in range(4)] == [40, 50, 60, 70]
