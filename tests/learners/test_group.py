"""The connection of learners: what becomes of one whose peer is lost, and the report of all."""

import itertools
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from learners.agreement import CHECKSUM, GroupAgreement, merged_report
from learners.group import LearnerGroup, LearnerLostError, agreed
from option_flags import Config
from options.rules import UsageError
from run_files.metrics import Report
from tests.learners.groups import run_group

SILENCE = 0.5  # seconds after which a silent learner is lost


def test_a_report_of_all_adds_up_what_each_one_uses_and_averages_the_batch() -> None:
    own = {"agent_steps": 80, "cpu_learner": 50.0, "policy_lag_max": 3, "policy_lag_mean": 1.0, "entropy": 0.5}
    other = {"agent_steps": 80, "cpu_learner": 70.0, "policy_lag_max": 9, "policy_lag_mean": 2.0, "entropy": 0.7}
    merged = merged_report([{**own, CHECKSUM: 5}, {**other, CHECKSUM: 5}], ["entropy"])
    expected = {"agent_steps": 80, "cpu_learner": 120.0, "policy_lag_max": 9, "policy_lag_mean": 1.5, "entropy": 0.6}
    assert {name: merged[name] for name in expected} == pytest.approx(expected)
    assert CHECKSUM not in merged
    assert [each["policy_lag_mean"] for each in merged["learners"]] == [1.0, 2.0]  # type: ignore[union-attr,index,call-overload]


def test_a_report_of_all_has_the_mean_shares_of_time() -> None:
    own: Report = {
        CHECKSUM: 5,
        "worker_time_shares": {"environment": 0.5, "rest": None},
        "gpu_memory_mb": 10,
        "replays": {},
    }
    other: Report = {
        CHECKSUM: 5,
        "worker_time_shares": {"environment": 0.7, "rest": None},
        "gpu_memory_mb": 30,
        "replays": {},
    }
    merged = merged_report([own, other], [])
    assert merged["worker_time_shares"] == {"environment": pytest.approx(0.6), "rest": None}
    assert (merged["gpu_memory_mb"], merged["replays"]) == (40, {})


def test_weights_that_differ_are_an_error() -> None:
    with pytest.raises(LearnerLostError, match="the weights of learner 1 are not those of learner 0"):
        merged_report([{CHECKSUM: 5}, {CHECKSUM: 6}, {CHECKSUM: 5}], [])


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"lr": 0.002}, "--lr is 0.001 for learner 0 and 0.002 for learner 1; the same for all would be right."),
        ({"device": "cuda"}, "--device is cpu for learner 0 and cuda for learner 1; the same for all would be right."),
    ],
)
def test_learners_that_differ_are_refused(other: dict[str, Any], sentence: str) -> None:
    """A group for GPUs must be made by all, so those with a GPU would wait for the others."""
    config = Config.from_flags({"learners": 2, "device": "cpu", "lr": 0.001, "seed": 3})
    learners: Any = SimpleNamespace(of_all=lambda own: [own, {**own, "seed": 4, **other}] if own else [])
    with pytest.raises(UsageError) as raised:
        agreed(config, learners)
    assert str(raised.value) == sentence


def waits_for_the_other(group: LearnerGroup, last: Callable[[], None]) -> Any:
    """Learner 1 does `last` instead of taking part; the report of learner 0 after that."""
    if group.rank.index == 1:
        last()
        return None
    agreement = GroupAgreement(group)
    with pytest.raises(LearnerLostError):
        any(agreement.may_update(ready=True) for _ in itertools.count())
    assert group.lost
    return agreement.merged({"agent_steps": 1}, [], int)  # nothing is done together any more


def die() -> None:
    os._exit(9)


def hang() -> None:
    time.sleep(600)


@pytest.mark.slow
def test_a_learner_that_hangs_is_noticed() -> None:
    assert run_group(waits_for_the_other, hang, dying=1, timeout=SILENCE)[0] == {"agent_steps": 1}


@pytest.mark.slow
def test_a_learner_that_dies_is_noticed_at_once() -> None:
    """Long before it would be taken for one that hangs."""
    assert run_group(waits_for_the_other, die, dying=1)[0] == {"agent_steps": 1}
