"""The ceiling of the throughput benchmarks is computed correctly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.ceiling import StepCost, fastest, learner_limit, serial_and_parallel

COSTS = st.builds(StepCost, *[st.floats(1e-6, 1e-2)] * 4)


def test_on_one_kind_of_core_the_costs_add_up() -> None:
    speed = fastest(StepCost(acting=3e-4, parallel=2e-4), cores=2, learner_threads=2)
    assert speed.steps_per_second == pytest.approx(4000)
    assert speed.limited_by == "cores"
    assert speed.busy_workers == pytest.approx(1.2)


def test_a_learner_on_a_gpu_takes_nothing_from_the_cores() -> None:
    cost = StepCost(acting=5e-4, device=1e-5)
    few, many = (fastest(cost, cores, learner_threads=1) for cores in (10, 64))
    assert (few.limited_by, many.limited_by) == ("cores", "learner")
    assert few.steps_per_second == pytest.approx(20_000)
    assert many.steps_per_second == pytest.approx(100_000)
    assert many.busy_workers == pytest.approx(50)


def test_a_serial_part_limits_the_speed_of_any_number_of_threads() -> None:
    cost = StepCost(acting=3e-4, serial=1e-4, parallel=2e-4)
    assert learner_limit(cost, 2) == pytest.approx(5_000)
    assert learner_limit(cost, 1e9) == pytest.approx(10_000)


def test_without_learning_the_cores_are_the_limit() -> None:
    speed = fastest(StepCost(acting=1e-3), cores=3, learner_threads=1)
    assert speed.steps_per_second == pytest.approx(3000)
    assert speed.limited_by == "cores"


@given(COSTS, st.integers(1, 64), st.integers(1, 64))
def test_more_cores_or_threads_are_never_slower(cost: StepCost, cores: int, threads: int) -> None:
    speed = fastest(cost, cores, threads).steps_per_second
    assert fastest(cost, cores + 1, threads).steps_per_second >= speed
    assert fastest(cost, cores, threads + 1).steps_per_second >= speed
    assert fastest(cost._replace(acting=cost.acting * 2), cores, threads).steps_per_second <= speed


@given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.integers(1, 4), st.integers(5, 64))
def test_the_parts_of_a_time_are_found_again(serial: float, parallel: float, few: int, many: int) -> None:
    found = serial_and_parallel([(few, serial + parallel / few), (many, serial + parallel / many)])
    assert list(found) == pytest.approx([serial, parallel], abs=1e-6)


def test_noise_makes_no_part_negative() -> None:
    assert serial_and_parallel([(1, 1.0), (2, 1.1)]) == (1.0, 0.0)
    assert serial_and_parallel([(1, 1.0), (2, 0.4)]) == (0.0, 1.0)
    with pytest.raises(ValueError, match="two numbers of threads"):
        serial_and_parallel([(2, 1.0), (2, 1.0)])
