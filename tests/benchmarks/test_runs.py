"""The throughput benchmark computes its figures from the reports of a run."""

import pytest

from options.rules import UsageError
from run_files.metrics import Report
from tests.benchmarks.runs import SETUPS, Setup, command_line, configure, figures
from tests.benchmarks.throughput import distinct, parts


def report(seconds: float, steps: int, cpu: float, waits: float) -> Report:
    return {
        "seconds": seconds,
        "agent_steps": steps,
        "frames": 4 * steps,
        "cpu_learner": cpu,
        "cpu_workers": 100.0,
        "time_shares": {"wait": waits, "update": 1 - waits},
        "worker_time_shares": {"environment": 0.75, "inference": None},
    }


def test_reports_are_weighted_with_their_interval() -> None:
    found = figures([report(5, 1000, 999, 0.9), report(6, 3000, 100, 0.5), report(9, 9000, 60, 0.1)], busy_cores=2.0)
    assert found.seconds == pytest.approx(4)
    assert found.steps_per_second == pytest.approx(2000)
    assert found.frames_per_second == pytest.approx(8000)
    assert found.learner_seconds == pytest.approx((1 * 1.0 + 3 * 0.6) / 4 / 2000)
    assert found.workers_seconds == pytest.approx(1 / 2000)
    assert found.others_cores == pytest.approx(2 - 1 - 0.7)
    assert found.learner_shares == pytest.approx({"wait": 0.2, "update": 0.8})
    assert found.worker_shares == pytest.approx({"environment": 0.75, "inference": 0.0})


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_the_command_line_wins_over_the_setup(setup: Setup) -> None:
    config = configure(setup, {"network": "impala_shallow", "batch_size": 16})
    assert (config.network.network, config.replay.batch_size) == ("impala_shallow", 16)
    words = command_line({**setup.flags, "console": "live"}, "folder")
    assert {"--console=off", "--results_dir=folder"} <= set(words)
    assert len({word.partition("=")[0] for word in words}) == len(words)


def test_setups_that_the_command_line_makes_equal_are_measured_once() -> None:
    assert distinct(SETUPS, {}) == list(SETUPS)
    assert [setup.name for setup in distinct(SETUPS, {"network": "conv3"})] == ["plain", "replay", "older"]


def test_parts_are_chosen_by_name() -> None:
    assert parts("stages,training") == (True, list(SETUPS))
    assert parts("older,plain") == (False, [SETUPS[0], SETUPS[2]])
    with pytest.raises(UsageError, match="--only must name some of stages"):
        parts("stage")
